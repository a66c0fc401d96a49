//! Which media types hold events as JSON, and how each is taken apart.

/// How a JSON body is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonFormat {
    /// One event a line.
    Lines,
    /// An array, or objects one after another: whatever the body begins like.
    Sniff,
}

const LINES: [&str; 4] = ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];
/// `text/plain` and the form type are what `curl -d` and many agents send without being told.
const SNIFFED: [&str; 4] = ["application/json", "text/json", "text/plain", "application/x-www-form-urlencoded"];

impl JsonFormat {
    /// The format a `Content-Type` announces; `None` where it is not one that is taken (415).
    /// Without the header the body is sniffed.
    pub fn of_content_type(header: Option<&str>) -> Option<JsonFormat> {
        let mut parts = header.unwrap_or("").split(';').map(str::trim);
        let media_type = parts.next().unwrap_or("").to_ascii_lowercase();
        if !parts.all(is_utf8_or_no_charset) {
            return None;
        }
        if LINES.contains(&&*media_type) {
            return Some(JsonFormat::Lines);
        }
        let sniffed = media_type.is_empty() || SNIFFED.contains(&&*media_type) || is_structured_json(&media_type);
        sniffed.then_some(JsonFormat::Sniff)
    }
}

fn is_structured_json(media_type: &str) -> bool {
    media_type.strip_suffix("+json").is_some_and(|rest| rest.contains('/') && !rest.ends_with('/'))
}

fn is_utf8_or_no_charset(parameter: &str) -> bool {
    match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            let charset = value.trim().trim_matches('"');
            charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8")
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_case_insensitive_and_may_carry_parameters() {
        for lines in LINES.iter().copied().chain(["Application/X-NDJSON; charset=UTF-8", "application/ndjson ;v=1"]) {
            assert_eq!(JsonFormat::of_content_type(Some(lines)), Some(JsonFormat::Lines), "{lines}");
        }
        for sniffed in
            ["application/JSON", "text/plain;charset=\"utf-8\"", "application/cloudevents+json", "application/x-www-form-urlencoded", ""]
        {
            assert_eq!(JsonFormat::of_content_type(Some(sniffed)), Some(JsonFormat::Sniff), "{sniffed}");
        }
        assert_eq!(JsonFormat::of_content_type(None), Some(JsonFormat::Sniff));
    }

    #[test]
    fn unknown_types_and_other_charsets_are_not_taken() {
        for refused in
            ["application/xml", "json", "application/+json", "application/json; charset=latin1", "text/html", "application/json5"]
        {
            assert_eq!(JsonFormat::of_content_type(Some(refused)), None, "{refused}");
        }
    }
}
