//! Answers to reads, taken apart: the rows, and what the answer says of itself.

use braid_shared::model::Timestamp;
use serde_json::Value;

use crate::oracle::{Answered, Read};

/// The rows of an answer that is whole, and where it ended; nothing where it is a stream that was cut.
pub(crate) fn rows(read: &Read, body: &[u8]) -> Result<Option<(Vec<Value>, Answered)>, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| format!("{error}: {line}"));
    if read.id.is_some() {
        let answer = parse(text)?;
        // A point read answers for its instant.
        let answered = Answered { to: i64::MAX, ..whole(&answer)? };
        // Where not all writes are shown, there may be none of the event.
        let unseen = answer["event"].is_null() && !answered.strong;
        return Ok(Some((if unseen { Vec::new() } else { vec![answer["event"].clone()] }, answered)));
    }
    if text.starts_with("{\"events\":[") {
        let answer = parse(text)?;
        if !answer["next"].is_null() {
            return Err("a page that holds all goes on".into());
        }
        let rows = answer["events"].as_array().cloned().unwrap_or_default();
        return Ok(Some((rows, whole(&answer)?)));
    }
    let mut lines = text.lines().map(parse).collect::<Result<Vec<_>, _>>()?;
    match lines.pop() {
        Some(last) if last.get("end").is_some() => Ok(Some((lines, whole(&last["end"])?))),
        _ => Ok(None),
    }
}

/// What an answer says of itself: that it is complete, or why it may not be.
fn whole(answer: &Value) -> Result<Answered, String> {
    let time = |name: &str| answer[name].as_str().and_then(|text| Timestamp::parse_rfc3339(text).ok()).map(Timestamp::nanos);
    let strong = match (answer["complete"].as_bool(), answer["consistency"].as_str()) {
        (Some(true), None) => true,
        (Some(false), Some("eventual")) if answer["missing"].is_null() => false,
        _ => return Err(format!("an answer that does not say that it is complete: {answer}")),
    };
    let to = time("to").ok_or_else(|| format!("an answer that does not say where it ends: {answer}"))?;
    Ok(Answered { from: time("from").unwrap_or(i64::MIN), to, strong })
}
