//! Values of several sources' columns, in a new order; where one event has several rows, the
//! latest write that has a field or tag gives it. Decides no order itself.

use std::cell::OnceCell;

use super::dict::{Dictionary, Translation};
use super::order::{Order, Place};
use super::table::{Column, Kind, Presence, Strings, Values};

/// A column of a source.
#[derive(Clone, Copy)]
struct Input<'a> {
    source: u32,
    column: &'a Column,
}

/// Which value a row gets: value `index` of input `from`.
#[derive(Clone, Copy)]
struct Cell {
    row: u32,
    from: u32,
    index: u32,
}

const NONE: u32 = u32::MAX;

/// The ids of the events of `order`.
pub(super) fn gather_ids(order: &Order, sources: &[&Strings]) -> Strings {
    let mut ids = Strings { ends: Vec::with_capacity(order.len()), bytes: Vec::new() };
    order.firsts().for_each(|place| ids.push(sources[place.source as usize].bytes_at(place.row as usize)));
    ids
}

/// The columns of the events of `order`, sorted.
pub(super) fn gather(order: &Order, sources: &[&[Column]]) -> Vec<Column> {
    let mut inputs: Vec<Input<'_>> = Vec::new();
    for (source, columns) in sources.iter().enumerate() {
        inputs.extend(columns.iter().map(|column| Input { source: source as u32, column }));
    }
    inputs.sort_by(|a, b| a.column.sort_key().cmp(&b.column.sort_key()));
    let inverse = OnceCell::new();
    let mut columns = Vec::new();
    for of_name in inputs.chunk_by(|a, b| a.column.tag == b.column.tag && a.column.name == b.column.name) {
        let cells = match dense(order, of_name, sources.len()) {
            Some(cells) => cells,
            None => sparse(inverse.get_or_init(|| Inverse::new(order, sources.len())), of_name),
        };
        emit(order.len(), of_name, &cells, &mut columns);
    }
    columns
}

/// The winning cells where every input has a value in every row, and they are a fair part of all.
fn dense(order: &Order, inputs: &[Input<'_>], sources: usize) -> Option<Vec<Cell>> {
    let values: usize = inputs.iter().map(|input| input.column.values.len()).sum();
    if values * 4 < order.len() || inputs.iter().any(|input| input.column.presence != Presence::All) {
        return None;
    }
    let mut input_of = vec![NONE; sources];
    for (from, input) in inputs.iter().enumerate() {
        input_of[input.source as usize] = from as u32;
    }
    let mut cells = Vec::with_capacity(order.len());
    for (row, places) in order.events().enumerate() {
        let latest = places.iter().rev().find(|place| input_of[place.source as usize] != NONE);
        cells.extend(latest.map(|place| Cell { row: row as u32, from: input_of[place.source as usize], index: place.row }));
    }
    Some(cells)
}

/// Where each source's rows went.
struct Inverse {
    /// By source and row: position among the ordered rows.
    positions: Vec<Vec<u32>>,
    /// By position: event.
    events: Vec<u32>,
}

impl Inverse {
    fn new(order: &Order, sources: usize) -> Inverse {
        let mut inverse = Inverse { positions: vec![Vec::new(); sources], events: Vec::with_capacity(order.places.len()) };
        for (event, places) in order.events().enumerate() {
            for place in places {
                inverse.note(*place, event as u32);
            }
        }
        inverse
    }

    fn note(&mut self, place: Place, event: u32) {
        let (positions, row) = (&mut self.positions[place.source as usize], place.row as usize);
        if positions.len() <= row {
            positions.resize(row + 1, NONE);
        }
        positions[row] = self.events.len() as u32;
        self.events.push(event);
    }

    fn position(&self, source: u32, row: u32) -> Option<u32> {
        self.positions[source as usize].get(row as usize).copied().filter(|position| *position != NONE)
    }
}

/// The winning cells, found from the cells there are: as cheap as they are few.
fn sparse(inverse: &Inverse, inputs: &[Input<'_>]) -> Vec<Cell> {
    let mut placed = Vec::new();
    for (from, input) in inputs.iter().enumerate() {
        for (index, row) in input.column.cells() {
            let Some(position) = inverse.position(input.source, row) else { continue };
            let row = inverse.events[position as usize];
            placed.push((position, Cell { row, from: from as u32, index: index as u32 }));
        }
    }
    placed.sort_by_key(|(position, _)| *position);
    let mut cells: Vec<Cell> = Vec::with_capacity(placed.len());
    for (_, cell) in placed {
        match cells.last_mut() {
            Some(last) if last.row == cell.row => *last = cell,
            _ => cells.push(cell),
        }
    }
    cells
}

/// Adds a column for each type that the winning cells have.
fn emit(rows: usize, inputs: &[Input<'_>], cells: &[Cell], columns: &mut Vec<Column>) {
    let mut first = 0;
    for of_kind in inputs.chunk_by(|a, b| a.column.values.kind() == b.column.values.kind()) {
        let range = first..first + of_kind.len() as u32;
        first = range.end;
        let chosen: Vec<Cell> =
            cells.iter().filter(|cell| range.contains(&cell.from)).map(|cell| Cell { from: cell.from - range.start, ..*cell }).collect();
        if chosen.is_empty() {
            continue;
        }
        let whole = chosen.len() == rows;
        let presence = if whole { Presence::All } else { Presence::Rows(chosen.iter().map(|cell| cell.row).collect()) };
        let Column { name, tag, .. } = of_kind[0].column;
        columns.push(Column { name: name.clone(), tag: *tag, presence, values: values(of_kind, &chosen) });
    }
}

fn values(inputs: &[Input<'_>], cells: &[Cell]) -> Values {
    macro_rules! numbers {
        ($kind:ident) => {{
            let slices: Vec<&[_]> =
                inputs.iter().map(|input| if let Values::$kind(v) = &input.column.values { &v[..] } else { &[] }).collect();
            Values::$kind(cells.iter().map(|cell| slices[cell.from as usize][cell.index as usize]).collect())
        }};
    }
    match inputs[0].column.values.kind() {
        Kind::F64 => numbers!(F64),
        Kind::I64 => numbers!(I64),
        Kind::U64 => numbers!(U64),
        Kind::Bool => numbers!(Bool),
        Kind::Str => dictionary(inputs, cells).unwrap_or_else(|| strings(inputs, cells)),
    }
}

fn strings(inputs: &[Input<'_>], cells: &[Cell]) -> Values {
    let mut strings = Strings { ends: Vec::with_capacity(cells.len()), bytes: Vec::new() };
    for cell in cells {
        strings.push(inputs[cell.from as usize].column.values.bytes_at(cell.index as usize));
    }
    Values::Str(strings)
}

/// A dictionary of the used entries, if all inputs are dictionaries.
fn dictionary<'a>(inputs: &[Input<'a>], cells: &[Cell]) -> Option<Values> {
    let dict = |input: &Input<'a>| match &input.column.values {
        Values::Dict(entries, indices) => Some((Translation::new(entries), &indices[..])),
        _ => None,
    };
    let mut dicts = inputs.iter().map(dict).collect::<Option<Vec<_>>>()?;
    let mut dictionary = Dictionary::default();
    let translate = |cell: &Cell| {
        let (translation, indices) = &mut dicts[cell.from as usize];
        translation.translate(&mut dictionary, indices[cell.index as usize])
    };
    let indices = cells.iter().map(translate).collect();
    Some(Values::Dict(dictionary.entries, indices))
}
