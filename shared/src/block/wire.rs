//! Bytes in and out: little-endian numbers, varints, and a reader that never runs past its end.
//!
//! Knows nothing of blocks. Reading is total: what is not there is an error, never a panic.

use super::BlockError;

const CUT: BlockError = BlockError::Damaged("cut short");

/// Maps small negative and positive numbers to small unsigned ones.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Appends 7 bits a byte, lowest first; the top bit says that more follow.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number, small where it is near 0.
pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Appends a signed 128-bit number, small where it is near 0.
pub(super) fn put_signed_wide(out: &mut Vec<u8>, value: i128) {
    let mut rest = ((value << 1) ^ (value >> 127)) as u128;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends bytes behind their length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads from the front of a slice.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Bytes not read yet.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], BlockError> {
        let (taken, _) = self.bytes[self.at..].split_at_checked(len).ok_or(CUT)?;
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BlockError> {
        let (taken, _) = self.bytes[self.at..].split_first_chunk::<N>().ok_or(CUT)?;
        self.at += N;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, BlockError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, BlockError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, BlockError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, BlockError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn f64(&mut self) -> Result<f64, BlockError> {
        Ok(f64::from_bits(self.u64()?))
    }

    pub(super) fn varint(&mut self) -> Result<u64, BlockError> {
        let wide = self.varint_wide()?;
        u64::try_from(wide).map_err(|_| BlockError::Damaged("a number too large"))
    }

    /// A varint that must not exceed `max`.
    pub(super) fn varint_up_to(&mut self, max: usize) -> Result<usize, BlockError> {
        match usize::try_from(self.varint()?) {
            Ok(value) if value <= max => Ok(value),
            _ => Err(BlockError::Damaged("a number too large")),
        }
    }

    pub(super) fn signed(&mut self) -> Result<i64, BlockError> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    pub(super) fn signed_wide(&mut self) -> Result<i128, BlockError> {
        let raw = self.varint_wide()?;
        Ok((raw >> 1) as i128 ^ -((raw & 1) as i128))
    }

    fn varint_wide(&mut self) -> Result<u128, BlockError> {
        let mut value = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.u8()?;
            let bits = u128::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(BlockError::Damaged("a number too large"))
    }

    /// Bytes behind their length, at most `max`.
    pub(super) fn bytes(&mut self, max: usize) -> Result<&'a [u8], BlockError> {
        let len = self.varint_up_to(max)?;
        self.take(len)
    }

    /// Fails unless everything was read.
    pub(super) fn finish(self) -> Result<(), BlockError> {
        if self.left() == 0 { Ok(()) } else { Err(BlockError::Damaged("bytes left over")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_leb128() {
        let mut out = Vec::new();
        put_varint(&mut out, 624_485);
        assert_eq!(out, [0xe5, 0x8e, 0x26]);
        assert_eq!(Reader::new(&out).varint(), Ok(624_485));
    }

    #[test]
    fn signed_numbers_of_every_size_come_back() {
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_signed(&mut out, value);
            assert_eq!(Reader::new(&out).signed(), Ok(value));
        }
        for value in [0, -1, i128::MAX, i128::MIN, i128::from(u64::MAX) * 4_096] {
            let mut out = Vec::new();
            put_signed_wide(&mut out, value);
            assert_eq!(Reader::new(&out).signed_wide(), Ok(value));
        }
    }

    #[test]
    fn a_varint_without_an_end_or_beyond_its_width_is_an_error() {
        assert!(Reader::new(&[0x80]).varint().is_err());
        assert!(Reader::new(&[0xff; 40]).varint_wide().is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).varint().is_err());
    }
}
