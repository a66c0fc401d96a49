//! The time inside ids that carry one: UUIDv7 (RFC 9562) and ULID.
//!
//! Pure. Writers take a missing event time from it, readers their first guess of a bucket.

/// Length of a UUID with hyphens.
const UUID_CHARS: usize = 36;
/// Length of a ULID.
const ULID_CHARS: usize = 26;
/// Characters of a ULID that hold its time: 50 bits, of which 48 are used.
const ULID_TIME_CHARS: usize = 10;

/// Milliseconds since the Unix epoch that a UUIDv7 (with hyphens) or a ULID carries; letters in
/// either case. `None` for every other id.
pub fn millis_of_id(id: &str) -> Option<u64> {
    match id.len() {
        UUID_CHARS => uuid_v7_millis(id.as_bytes()),
        ULID_CHARS => ulid_millis(id.as_bytes()),
        _ => None,
    }
}

fn uuid_v7_millis(id: &[u8]) -> Option<u64> {
    let mut millis = 0;
    for (i, byte) in id.iter().enumerate() {
        match i {
            8 | 13 | 18 | 23 => (*byte == b'-').then_some(())?,
            14 => (*byte == b'7').then_some(())?,
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b' | b'A' | b'B').then_some(())?,
            _ => {
                let digit = (*byte as char).to_digit(16)?;
                if i < 13 {
                    millis = millis << 4 | u64::from(digit);
                }
            }
        }
    }
    Some(millis)
}

fn ulid_millis(id: &[u8]) -> Option<u64> {
    let mut millis = 0;
    for (i, byte) in id.iter().enumerate() {
        let digit = crockford(*byte)?;
        if i < ULID_TIME_CHARS {
            millis = millis << 5 | digit;
        }
    }
    (millis < 1 << 48).then_some(millis)
}

/// A digit of Crockford's base 32, which leaves out I, L, O and U.
fn crockford(byte: u8) -> Option<u64> {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let byte = byte.to_ascii_uppercase();
    DIGITS.iter().position(|digit| *digit == byte).map(|digit| digit as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uuid_of_rfc_9562_carries_its_time() {
        assert_eq!(millis_of_id("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), Some(0x017F_22E2_79B0));
        assert_eq!(millis_of_id("017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), Some(0x017F_22E2_79B0));
    }

    #[test]
    fn the_ulid_of_its_specification_carries_its_time() {
        assert_eq!(millis_of_id("01ARZ3NDEKTSV4RRFFQ69G5FAV"), Some(1_469_922_850_259));
        assert_eq!(millis_of_id("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), Some((1 << 48) - 1));
    }

    #[test]
    fn other_ids_carry_no_time() {
        for id in [
            "",
            "o-17",
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-c8c4-dc0c0c07398f",
            "017f22e2x79b0-7cc3-98c4-dc0c0c07398f",
            "01ARZ3NDEKTSV4RRFFQ69G5FAU",
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        ] {
            assert_eq!(millis_of_id(id), None, "{id}");
        }
    }
}
