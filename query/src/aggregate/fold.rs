//! The fold: one partition's verified blocks into cells, by columns; then cells into rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use braid_shared::block::{self, Block, Column, Projection, Table, Values};
use braid_shared::model::TimeRange;

use super::groups::{Groups, NO_GROUP, row_of};
use super::{Job, PERCENTILE_VALUES_MAX, TooLarge};
use crate::error::QueryError;
use crate::json;
use crate::verify::Verified;

/// Cells that grow; several of them may work on one job, each on its own partitions.
#[derive(Debug)]
pub struct Fold {
    job: Arc<Job>,
    groups: Groups,
    /// Rows decoded.
    pub rows: u64,
    /// Blocks of which the header said enough.
    pub blocks_by_header: u64,
}

impl Fold {
    /// Nothing yet.
    pub fn new(job: Arc<Job>) -> Result<Fold, TooLarge> {
        let mut groups = Groups::new(job.steps.count());
        if job.spec.group_by.is_empty() {
            groups.named(&Vec::new())?;
        }
        Ok(Fold { job, groups, rows: 0, blocks_by_header: 0 })
    }

    /// Adds the events of a partition that lie in `range`, a part of the job's range.
    pub fn add(&mut self, mut verified: Verified, range: TimeRange) -> Result<(), QueryError> {
        self.take_by_header(&mut verified.blocks, range);
        let projection = self.projection();
        let pieces = block::pieces(&verified.planned.epoch.layout, &verified.blocks, range, &projection);
        let pieces = pieces.map(|table| table.map_err(|error| verified.damaged(&error)));
        let runs = verified.runs.iter().map(|run| run.table(range, &projection).map_err(|error| verified.damaged(&error)));
        for table in pieces.chain(runs) {
            let table = table?;
            self.rows += table.ts.len() as u64;
            self.add_table(&table)?;
        }
        Ok(())
    }

    /// Adds another fold of the same job.
    pub fn merge(&mut self, other: Fold) -> Result<(), TooLarge> {
        self.rows += other.rows;
        self.blocks_by_header += other.blocks_by_header;
        for (name, cells) in other.groups.into_cells() {
            let group = self.groups.named(&name)?;
            self.groups.cells(group).iter_mut().zip(cells).for_each(|(mine, other)| mine.merge(other));
        }
        Ok(())
    }

    fn projection(&self) -> Projection {
        let spec = &self.job.spec;
        let tags = spec.group_by.iter().map(String::as_str).chain(spec.filter.tags()).map(str::to_owned).collect();
        Projection::Only { fields: spec.field.iter().cloned().collect(), tags }
    }

    /// Takes the blocks that need no decoding out of `blocks`: none of their events can have a
    /// double elsewhere, all fall into one cell, and the header has what is asked for.
    fn take_by_header(&mut self, blocks: &mut Vec<Block>, range: TimeRange) {
        let spec = &self.job.spec;
        if !spec.filter.is_empty() || !spec.group_by.is_empty() || self.job.keeps_values() {
            return;
        }
        blocks.sort_by_key(|block| block.header().address);
        let alone = alone(blocks);
        let mut alone = alone.into_iter();
        blocks.retain(|block| !(alone.next() == Some(true) && self.take_header(block, range)));
    }

    /// Adds a block by its header, where that says enough.
    fn take_header(&mut self, block: &Block, range: TimeRange) -> bool {
        let header = block.header();
        let (min, max) = (header.address.min_ts, header.address.max_ts);
        if !header.distinct || !range.contains(min) || !range.contains(max) {
            return false;
        }
        let step = self.job.steps.index(min.nanos());
        if step != self.job.steps.index(max.nanos()) {
            return false;
        }
        let stats = match &self.job.spec.field {
            None => Vec::new(),
            Some(field) => match block.field_stats(field) {
                Some(stats) => stats,
                None => return false,
            },
        };
        let cell = &mut self.groups.cells(0)[step];
        if self.job.spec.field.is_none() {
            cell.count += u64::from(header.count);
        }
        stats.iter().for_each(|stats| cell.add_stats(stats));
        self.blocks_by_header += 1;
        true
    }

    fn add_table(&mut self, table: &Table) -> Result<(), TooLarge> {
        let job = self.job.clone();
        let passing = job.spec.filter.passing(table);
        let columns = table.columns.iter().filter(|column| !column.tag && Some(&column.name) == job.spec.field.as_ref());
        if job.keeps_values() {
            let values: usize = columns.clone().filter(|column| is_numeric(column)).map(|column| column.values.len()).sum();
            let rows = passing.as_ref().map_or(table.ts.len(), |passing| passing.iter().filter(|passes| **passes).count());
            let values = values.min(rows);
            if job.values_kept.fetch_add(values, Ordering::Relaxed) + values > PERCENTILE_VALUES_MAX {
                return Err(TooLarge(format!("percentiles of more than {PERCENTILE_VALUES_MAX} values; ask for a shorter range")));
            }
        }
        if job.spec.group_by.is_empty() && passing.is_none() {
            self.add_runs(&job, table, columns);
            return Ok(());
        }
        let groups = self.groups.of_rows(table, &job.spec.group_by, passing.as_deref())?;
        self.add_rows(&job, table, columns, &groups);
        Ok(())
    }

    /// Everything into one group: whole runs of a step at once.
    fn add_runs<'a>(&mut self, job: &Job, table: &Table, columns: impl Iterator<Item = &'a Column>) {
        let cells = self.groups.cells(0);
        let keep = job.keeps_values();
        if job.spec.field.is_none() {
            job.steps.runs(&table.ts).for_each(|(step, rows)| cells[step].count += rows.len() as u64);
            return;
        }
        for column in columns {
            for (step, rows) in job.steps.runs(&table.ts) {
                cells[step].add(&column.values, column.presence.cells_in(&rows), keep);
            }
        }
    }

    /// Into the group of each row: per step, the values of each group are gathered, then added at once.
    fn add_rows<'a>(&mut self, job: &Job, table: &Table, columns: impl Iterator<Item = &'a Column>, groups: &[u32]) {
        if job.spec.field.is_none() {
            for (step, rows) in job.steps.runs(&table.ts) {
                let grouped = groups[rows].iter().filter(|group| **group != NO_GROUP);
                grouped.for_each(|group| self.groups.cells(*group)[step].count += 1);
            }
            return;
        }
        for column in columns {
            let steps = job.steps.runs(&table.ts).map(|(step, rows)| (step, column.presence.cells_in(&rows)));
            match &column.values {
                Values::F64(values) => self.add_grouped(job, column, values, Values::F64, steps, groups),
                Values::I64(values) => self.add_grouped(job, column, values, Values::I64, steps, groups),
                Values::U64(values) => self.add_grouped(job, column, values, Values::U64, steps, groups),
                Values::Bool(_) | Values::Str(_) | Values::Dict(..) => {
                    for (step, values) in steps {
                        let grouped = values.map(|i| groups[row_of(column, i)]).filter(|group| *group != NO_GROUP);
                        grouped.for_each(|group| self.groups.cells(group)[step].count += 1);
                    }
                }
            }
        }
    }

    fn add_grouped<T: Copy>(
        &mut self,
        job: &Job,
        column: &Column,
        values: &[T],
        wrap: fn(Vec<T>) -> Values,
        steps: impl Iterator<Item = (usize, Range<usize>)>,
        groups: &[u32],
    ) {
        let mut gathered: Vec<Vec<T>> = Vec::new();
        let mut touched = Vec::new();
        for (step, range) in steps {
            for i in range {
                let group = groups[row_of(column, i)];
                if group == NO_GROUP {
                    continue;
                }
                if gathered.len() <= group as usize {
                    gathered.resize_with(group as usize + 1, Vec::new);
                }
                let values_of_group = &mut gathered[group as usize];
                if values_of_group.is_empty() {
                    touched.push(group);
                }
                values_of_group.push(values[i]);
            }
            for group in touched.drain(..) {
                let values = std::mem::take(&mut gathered[group as usize]);
                let count = values.len();
                self.groups.cells(group)[step].add(&wrap(values), 0..count, job.keeps_values());
            }
        }
    }

    /// The rows as a JSON array, by group (an absent tag first, then byte order), then by time.
    pub fn write(self, out: &mut Vec<u8>) {
        let job = self.job;
        let mut groups: Vec<_> = self.groups.into_cells().collect();
        groups.sort_by(|(a, _), (b, _)| a.cmp(b));
        out.push(b'[');
        let mut first = true;
        for (name, cells) in groups {
            let mut group = Vec::new();
            write_group(&job.spec.group_by, &name, &mut group);
            for (step, mut cell) in cells.into_iter().enumerate() {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                write_row(&job, step, &group, &mut cell, out);
            }
        }
        out.push(b']');
    }
}

/// Whether each block, in order of their addresses, shares no instant with another.
fn alone(blocks: &[Block]) -> Vec<bool> {
    let mut alone = vec![true; blocks.len()];
    let mut reach: Option<(usize, i64)> = None;
    for (i, block) in blocks.iter().enumerate() {
        let (min, max) = (block.header().address.min_ts.nanos(), block.header().address.max_ts.nanos());
        match reach {
            Some((widest, end)) if min <= end => {
                (alone[widest], alone[i]) = (false, false);
                reach = Some(if max > end { (i, max) } else { (widest, end) });
            }
            _ => reach = Some((i, max)),
        }
    }
    alone
}

fn is_numeric(column: &Column) -> bool {
    matches!(column.values, Values::F64(_) | Values::I64(_) | Values::U64(_))
}

fn write_group(tags: &[String], name: &[Option<String>], out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (tag, value)) in tags.iter().zip(name).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::put(out, tag);
        out.push(b':');
        json::put(out, value);
    }
    out.push(b'}');
}

fn write_row(job: &Job, step: usize, group: &[u8], cell: &mut super::cell::Cell, out: &mut Vec<u8>) {
    let bounds = job.steps.bounds(step);
    let seconds = (i128::from(bounds.to.nanos()) - i128::from(bounds.from.nanos())) as f64 / 1e9;
    out.extend_from_slice(b"{\"start\":");
    json::put_time(out, bounds.from);
    out.extend_from_slice(b",\"end\":");
    json::put_time(out, bounds.to);
    out.extend_from_slice(b",\"group\":");
    out.extend_from_slice(group);
    for (name, function) in &job.spec.functions {
        out.push(b',');
        json::put(out, name);
        out.push(b':');
        cell.write(*function, seconds, out);
    }
    out.push(b'}');
}
