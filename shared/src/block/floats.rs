//! Doubles: constant, or decimals of few places as whole numbers, or their bytes by significance.
//!
//! Lossless to the bit (−0.0 included); only finite doubles exist in a block.

use std::ops::Range;

use super::BlockError;
use super::ints::{put_ints, take_ints};
use super::squeeze::{put_blob, take_blob};
use super::wire::Reader;

const CONSTANT: u8 = 0;
const DECIMAL: u8 = 1;
const PLANES: u8 = 2;

/// Powers of ten that are tried: a double is "of k places" if n / 10^k is it, bit for bit.
const POWERS: [f64; 7] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];

/// Largest whole number used for a decimal: all up to it are exact doubles, with room to round.
const DECIMAL_MAX: f64 = (1u64 << 52) as f64;

/// `value` × `power` as a whole number, if dividing it again gives `value` to the bit.
fn scaled(value: f64, power: f64) -> Option<i64> {
    let product = value * power;
    if product.abs() > DECIMAL_MAX {
        return None;
    }
    let whole = (product + 0.5f64.copysign(product)) as i64;
    (((whole as f64) / power).to_bits() == value.to_bits()).then_some(whole)
}

/// All values as whole numbers over the least power of ten that fits them all.
fn decimals(values: &[f64]) -> Option<(usize, Vec<i64>)> {
    let mut places = 0;
    for &value in values {
        while scaled(value, POWERS[places]).is_none() {
            places += 1;
            if places == POWERS.len() {
                return None;
            }
        }
    }
    let whole: Option<Vec<i64>> = values.iter().map(|value| scaled(*value, POWERS[places])).collect();
    Some((places, whole?))
}

/// Appends doubles; their count is not stored.
pub(super) fn put_floats(out: &mut Vec<u8>, values: &[f64]) {
    if let Some(first) = values.first()
        && values.iter().all(|value| value.to_bits() == first.to_bits())
    {
        out.push(CONSTANT);
        out.extend_from_slice(&first.to_le_bytes());
    } else if let Some((places, whole)) = decimals(values) {
        out.extend_from_slice(&[DECIMAL, places as u8]);
        put_ints(out, &whole);
    } else {
        out.push(PLANES);
        put_blob(out, &planes(values));
    }
}

/// First every value's lowest byte, then every second one, …: signs and exponents, which vary
/// little, stand side by side.
fn planes(values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * 8];
    for (index, value) in values.iter().enumerate() {
        for (plane, byte) in value.to_le_bytes().into_iter().enumerate() {
            bytes[plane * values.len() + index] = byte;
        }
    }
    bytes
}

/// Reads `part` of `n` doubles.
pub(super) fn take_floats(reader: &mut Reader<'_>, n: usize, part: Range<usize>) -> Result<Vec<f64>, BlockError> {
    let values = match reader.u8()? {
        CONSTANT => vec![reader.f64()?; part.len()],
        DECIMAL => {
            let places = usize::from(reader.u8()?);
            let power = *POWERS.get(places).ok_or(BlockError::Damaged("a decimal of too many places"))?;
            take_ints(reader, n, part)?.into_iter().map(|whole| whole as f64 / power).collect()
        }
        PLANES => {
            let bytes = take_blob(reader, n * 8, 0..n * 8)?;
            let value = |index| f64::from_le_bytes(std::array::from_fn(|plane| bytes[plane * n + index]));
            part.map(value).collect()
        }
        _ => return Err(BlockError::Damaged("an unknown encoding of doubles")),
    };
    if values.iter().all(|value: &f64| value.is_finite()) { Ok(values) } else { Err(BlockError::Damaged("a double that is not finite")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(values: &[f64]) -> Vec<u8> {
        let mut out = Vec::new();
        put_floats(&mut out, values);
        let mut reader = Reader::new(&out);
        let read = take_floats(&mut reader, values.len(), 0..values.len()).unwrap();
        assert_eq!(reader.finish(), Ok(()));
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read), bits(values));
        out
    }

    #[test]
    fn prices_are_stored_as_cents() {
        let values: Vec<f64> = (0..1_000).map(|i| f64::from((i * 7_919) % 10_000) / 100.0).collect();
        // 14 bits each, behind the mode, the places, and three bytes of the whole numbers' own.
        assert_eq!(back(&values).len(), 2 + 3 + 1_750);
    }

    #[test]
    fn doubles_that_are_no_short_decimals_come_back_to_the_bit() {
        for values in [
            vec![-0.0, 0.0],
            vec![0.1 + 0.2, 0.3],
            vec![f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::MIN],
            vec![4_503_599_627_370_497.5, 1.25],
            vec![1e300],
        ] {
            back(&values);
        }
    }

    #[test]
    fn one_negative_zero_keeps_its_sign_among_decimals() {
        assert_eq!(back(&[1.5, -0.0, 2.5])[0], PLANES);
    }

    #[test]
    fn doubles_that_are_not_finite_are_damage() {
        let mut out = vec![CONSTANT];
        out.extend_from_slice(&f64::NAN.to_le_bytes());
        assert!(take_floats(&mut Reader::new(&out), 1, 0..1).is_err());
    }
}
