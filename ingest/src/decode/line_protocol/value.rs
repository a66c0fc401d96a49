//! Field values: numbers, booleans and quoted strings.
//!
//! What is not one of them in InfluxDB's spelling is refused, never guessed: no sign `+`, no
//! hexadecimal, no NaN or infinity, nothing that would have to be rounded to one.

use std::num::IntErrorKind;

use braid_shared::codes;
use braid_shared::model::ValueRef;
use braid_shared::model::batch::BatchValue;

use super::cursor::{Cursor, malformed, shown, string_end};
use crate::fault::Fault;

impl<'a> Cursor<'a> {
    /// Reads the value that follows a field's equals sign.
    pub(super) fn value(&mut self) -> Result<BatchValue<'a>, Fault> {
        if self.take(b'"') { self.string() } else { self.literal().map(BatchValue::Plain) }
    }

    /// Reads a string whose opening quote is passed.
    fn string(&mut self) -> Result<BatchValue<'a>, Fault> {
        let start = self.at;
        let close = string_end(self.bytes, start).ok_or_else(|| malformed("a string's closing quote is missing"))?;
        let text = self.text(start, close)?;
        self.at = close + 1;
        Ok(match memchr::memchr(b'\\', text.as_bytes()) {
            None => BatchValue::Plain(ValueRef::Str(text)),
            Some(_) => BatchValue::Unescaped(unescape(text).into()),
        })
    }

    fn literal(&mut self) -> Result<ValueRef<'a>, Fault> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| matches!(byte, b',' | b' ' | b'\n' | b'\r')).unwrap_or(rest.len());
        let token = self.text(self.at, self.at + length)?;
        self.at += length;
        match token {
            "t" | "T" | "true" | "True" | "TRUE" => Ok(ValueRef::Bool(true)),
            "f" | "F" | "false" | "False" | "FALSE" => Ok(ValueRef::Bool(false)),
            "" => Err(malformed("a field's value is missing")),
            _ => number(token),
        }
    }
}

/// Only `\"` and `\\` are escapes; any other backslash is itself.
fn unescape(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        value.push_str(before);
        match behind.as_bytes().first() {
            Some(b'"' | b'\\') => {
                value.push_str(&behind[..1]);
                rest = &behind[1..];
            }
            _ => {
                value.push('\\');
                rest = behind;
            }
        }
    }
    value.push_str(rest);
    value
}

fn number(token: &str) -> Result<ValueRef<'static>, Fault> {
    let number = match token.as_bytes() {
        [b'0'..=b'9' | b'-' | b'.', .., b'i'] => integer(&token[..token.len() - 1]),
        [b'0'..=b'9' | b'-' | b'.', .., b'u'] => unsigned(&token[..token.len() - 1]),
        [b'0'..=b'9' | b'-' | b'.', ..] => float(token),
        _ => Err(None),
    };
    number.map_err(|code| match code {
        Some(code) => Fault::new(code, format!("{} does not fit its type", shown(token))),
        None if is_not_finite(token) => Fault::new(codes::NUMBER_OUT_OF_RANGE, format!("{} is not a finite number", shown(token))),
        None => malformed(format!("{} is neither a number nor a boolean nor a quoted string", shown(token))),
    })
}

/// A number, or the code of one that does not fit; none where it is no number at all.
type Number = Result<ValueRef<'static>, Option<&'static str>>;

fn integer(digits: &str) -> Number {
    digits.parse().map(ValueRef::I64).map_err(|error| out_of_range(error.kind()))
}

fn unsigned(digits: &str) -> Number {
    match digits.strip_prefix('-') {
        None => digits.parse().map(ValueRef::U64).map_err(|error| out_of_range(error.kind())),
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => Err(Some(codes::NUMBER_OUT_OF_RANGE)),
        Some(_) => Err(None),
    }
}

fn out_of_range(kind: &IntErrorKind) -> Option<&'static str> {
    matches!(kind, IntErrorKind::PosOverflow | IntErrorKind::NegOverflow).then_some(codes::NUMBER_OUT_OF_RANGE)
}

fn float(token: &str) -> Number {
    // Rust also reads words such as infinity, which are letters.
    if !token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')) {
        return Err(None);
    }
    match token.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(ValueRef::F64(number)),
        Ok(_) => Err(Some(codes::NUMBER_OUT_OF_RANGE)),
        Err(_) => Err(None),
    }
}

fn is_not_finite(token: &str) -> bool {
    let word = token.strip_prefix(['-', '+']).unwrap_or(token);
    ["nan", "inf", "infinity"].iter().any(|name| word.eq_ignore_ascii_case(name))
}
