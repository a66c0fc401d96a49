//! What is kept, what is refused and with which code, and what a broken event costs its neighbours.

mod body;
mod event;
mod properties;

use braid_shared::limits::{FIELDS_MAX, REQUEST_EVENTS_MAX, REQUEST_VALUES_MAX};
use braid_shared::model::RowFault;

use super::*;

const GOOD: &str = r#"{"key":"good","value":1}"#;

fn decode(body: &[u8], format: JsonFormat) -> Batch<'_> {
    decode_json(body, format, Precision::Millis).expect("body taken")
}

fn sniff(body: &str) -> Batch<'_> {
    decode(body.as_bytes(), JsonFormat::Sniff)
}

fn body_code(body: impl AsRef<[u8]>) -> &'static str {
    decode_json(body.as_ref(), JsonFormat::Sniff, Precision::Millis).expect_err("refused").code
}

/// (index, line, code) of every fault.
fn faults(batch: &Batch<'_>) -> Vec<(u32, u32, &'static str)> {
    batch.faults.iter().map(|fault| (fault.index, fault.line, fault.code)).collect()
}

/// (index, line) of every row.
fn places(batch: &Batch<'_>) -> Vec<(u32, u32)> {
    batch.rows.iter().map(|row| (row.index, row.line)).collect()
}

/// The fault of an event between two good ones, the same as a line, a sniffed line and an element.
/// Its neighbours are kept and nothing of it is.
fn fault_of(event: impl AsRef<[u8]>) -> RowFault {
    let lines = [GOOD.as_bytes(), event.as_ref(), GOOD.as_bytes()].join(&b'\n');
    let array = [b"[", &*[GOOD.as_bytes(), event.as_ref(), GOOD.as_bytes()].join(&b','), b"]"].concat();
    let batches = [decode(&lines, JsonFormat::Lines), decode(&lines, JsonFormat::Sniff), decode(&array, JsonFormat::Sniff)];
    for batch in &batches {
        assert_eq!(batch.rows.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 2], "{:?}", batch.faults);
        assert_eq!((batch.fields.len(), batch.tags.len()), (2, 0), "nothing left of the refused event");
        assert_eq!(batch.faults.len(), 1);
        assert_eq!((batch.faults[0].index, batch.faults[0].code), (1, batches[0].faults[0].code));
    }
    assert_eq!((batches[0].faults[0].line, batches[1].faults[0].line, batches[2].faults[0].line), (2, 2, 0));
    batches[0].faults[0].clone()
}

fn code_of(event: impl AsRef<[u8]>) -> &'static str {
    fault_of(event).code
}
