//! A buffer for secrets that is zeroed when it grows.

use zeroize::Zeroizing;

/// Appends `bytes`. If the buffer is too small, its content moves to a larger one and the old one
/// is zeroed: a vector that grows by itself only frees it.
pub fn append(buffer: &mut Zeroizing<Vec<u8>>, bytes: &[u8]) {
    let needed = buffer.len() + bytes.len();
    if needed > buffer.capacity() {
        let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(buffer.capacity() * 2)));
        larger.extend_from_slice(buffer);
        *buffer = larger;
    }
    buffer.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_keeps_all_bytes() {
        let mut buffer = Zeroizing::new(Vec::new());
        for number in 0..1000_u32 {
            append(&mut buffer, number.to_string().as_bytes());
        }
        let expected: String = (0..1000).map(|number: u32| number.to_string()).collect();
        assert_eq!(*buffer, expected.as_bytes());
    }
}
