//! The ids of all requests, one after the other in one buffer, each once.
//!
//! An id stands for one attempt: its text and the attempt's number. A UUID, or 32 hexadecimal digits, takes 16
//! bytes.

/// The most bytes that the encoding adds to an id's text.
const HEAD: usize = 2;

/// An attempt's id as it is kept and compared.
#[derive(Debug, Default, Clone)]
pub(crate) struct Key(Vec<u8>);

/// How the text is kept; in the two low bits of the head.
const PLAIN: u8 = 0;
const UUID: u8 = 1;
const HEX: u8 = 2;

impl Key {
    /// Encodes into this key, whatever it was before.
    pub(crate) fn set(&mut self, id: &[u8], attempt: u32) {
        self.0.clear();
        append(&mut self.0, id, attempt);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Appends an id's encoding: head (how, and how long), text, attempt.
pub(crate) fn append(to: &mut Vec<u8>, id: &[u8], attempt: u32) {
    if let Some((how, packed)) = packed(id) {
        to.push(how);
        to.extend_from_slice(&packed);
    } else {
        // An id is at most 512 bytes long: 14 bits.
        let length = u16::try_from(id.len()).unwrap_or(u16::MAX >> 2);
        to.extend_from_slice(&(length << 2 | u16::from(PLAIN)).to_le_bytes());
        to.extend_from_slice(&id[..usize::from(length)]);
    }
    match u8::try_from(attempt) {
        Ok(small) if small < 0xff => to.push(small),
        _ => {
            to.push(0xff);
            to.extend_from_slice(&attempt.to_le_bytes());
        }
    }
}

fn packed(id: &[u8]) -> Option<(u8, [u8; 16])> {
    let how = match id.len() {
        36 if [8, 13, 18, 23].iter().all(|&at| id[at] == b'-') => UUID,
        32 => HEX,
        _ => return None,
    };
    let mut nibbles = [0; 32];
    let digits =
        id.iter().enumerate().filter(|&(at, _)| how == HEX || ![8, 13, 18, 23].contains(&at));
    for (nibble, (_, &digit)) in nibbles.iter_mut().zip(digits) {
        *nibble = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
    }
    let mut packed = [0; 16];
    for (byte, pair) in packed.iter_mut().zip(nibbles.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some((how, packed))
}

/// The length of the encoding at the start of `bytes`.
fn length(bytes: &[u8]) -> usize {
    let text = match bytes[0] & 3 {
        PLAIN => HEAD + usize::from(u16::from_le_bytes([bytes[0], bytes[1]]) >> 2),
        _ => 1 + 16,
    };
    text + if bytes[text] == 0xff { 5 } else { 1 }
}

/// The id's text and the attempt's number of the encoding at the start of `bytes`.
pub(crate) fn decoded(bytes: &[u8]) -> (String, u32) {
    let bytes = &bytes[..length(bytes)];
    let (text, rest) = match bytes[0] & 3 {
        PLAIN => {
            let (text, rest) = bytes[HEAD..].split_at(length_of_text(bytes));
            (String::from_utf8_lossy(text).into_owned(), rest)
        }
        how => {
            let (packed, rest) = bytes[1..].split_at(16);
            let mut text = String::with_capacity(36);
            for (at, byte) in packed.iter().enumerate() {
                if how == UUID && [4, 6, 8, 10].contains(&at) {
                    text.push('-');
                }
                for nibble in [byte >> 4, byte & 15] {
                    text.push(char::from_digit(nibble.into(), 16).unwrap_or('?'));
                }
            }
            (text, rest)
        }
    };
    let attempt = match *rest {
        [0xff, a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        [small, ..] => small.into(),
        [] => 0,
    };
    (text, attempt)
}

fn length_of_text(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]) >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_whole() {
        let long = "x".repeat(512);
        for id in [
            "a",
            "extract-017",
            "0b9c2f6e-8d1a-4c3b-9e7f-00112233aabb",
            "0B9C2F6E-8D1A-4C3B-9E7F-00112233AABB",
            "00112233445566778899aabbccddeeff",
            "00112233445566778899aabbccddeefg",
            &long,
        ] {
            for attempt in [0, 1, 254, 255, 256, u32::MAX] {
                let mut key = Key::default();
                key.set(id.as_bytes(), attempt);
                assert_eq!(length(key.bytes()), key.bytes().len());
                let mut more = key.bytes().to_vec();
                more.extend(b"more");
                assert_eq!(decoded(&more), (id.to_owned(), attempt));
            }
        }
        let mut key = Key::default();
        key.set(b"0b9c2f6e-8d1a-4c3b-9e7f-00112233aabb", 1);
        assert_eq!(key.bytes().len(), 18);
    }
}
