//! The numbers in a line: JSON numbers without an exponent, of no more digits than are read exactly.
//!
//! Most are short, and stand before more bytes: those are read eight at once, the first the lowest.

use crate::bytes::count_digits;

/// A number of more digits may lose some in the general way.
const MOST_DIGITS: usize = 15;

/// The length of the number that `bytes` begin with.
pub(super) fn number_length(bytes: &[u8]) -> Option<usize> {
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let mut count = count_digits(&bytes[sign..]);
    if count == 0 || (count > 1 && bytes[sign] == b'0') {
        return None;
    }
    let mut end = sign + count;
    if bytes.get(end) == Some(&b'.') {
        let part = count_digits(&bytes[end + 1..]);
        if part == 0 {
            return None;
        }
        count += part;
        end += 1 + part;
    }
    let exponent = bytes.get(end).is_some_and(|b| matches!(b, b'e' | b'E'));
    (count <= MOST_DIGITS && !exponent).then_some(end)
}

/// What follows the number that `bytes` begin with. An exponent may follow too: the literal after a number, which
/// begins with a comma, a brace or a blank, rules it out.
#[inline(always)]
pub(super) fn skip_number(bytes: &[u8]) -> Option<&[u8]> {
    if let Some(chunk) = bytes.first_chunk()
        && let Some(length) = short_length(u64::from_le_bytes(*chunk))
    {
        return Some(&bytes[length..]);
    }
    skip_any(bytes)
}

#[cold]
fn skip_any(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(number_length(bytes)?..)
}

/// The length of a number of less than eight bytes, of those that `word` begins with; `None`: it is another, or none.
#[inline(always)]
fn short_length(word: u64) -> Option<usize> {
    let byte = |at: usize| (word >> (at * 8)) & 0xff;
    let others = no_digits(word);
    let whole = place_of_lowest(others)?;
    if whole == 0 || (whole > 1 && byte(0) == u64::from(b'0')) {
        return None;
    }
    if byte(whole) != u64::from(b'.') {
        return Some(whole);
    }
    let end = place_of_lowest(others & (others - 1))?;
    (end > whole + 1).then_some(end)
}

/// The high bit of each byte that is no digit. Above the lowest such byte that is not ASCII there may be wrong ones.
#[inline(always)]
fn no_digits(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let digits = word ^ (ONES * u64::from(b'0'));
    // What is above 9 reaches the high bit.
    (digits.wrapping_add(ONES * (0x7f - 9)) | digits) & (ONES * 0x80)
}

/// In which byte the lowest bit is.
#[inline(always)]
fn place_of_lowest(bits: u64) -> Option<usize> {
    (bits != 0).then(|| (bits.trailing_zeros() / 8) as usize)
}

/// A number of one digit before a comma or the object's end, such as most numbers of attempts, and what follows it.
#[inline(always)]
pub(super) fn one_digit(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let &[digit @ b'0'..=b'9', b',' | b'}'] = bytes.first_chunk::<2>()? else { return None };
    Some((u32::from(digit - b'0'), &bytes[1..]))
}

/// The same of three digits, as statuses have them.
#[inline(always)]
pub(super) fn three_digits(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let &[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b',' | b'}'] = bytes.first_chunk()?
    else {
        return None;
    };
    let digit = |byte: u8| u16::from(byte - b'0');
    Some((digit(a) * 100 + digit(b) * 10 + digit(c), &bytes[3..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, and what is almost one.
    const FORMS: [&str; 33] = [
        "",
        "0",
        "7",
        "-0",
        "-7",
        "00",
        "01",
        "-01",
        "10",
        "12",
        "200",
        "1234567",
        "12345678",
        "123456789012345",
        "1234567890123456",
        "0.0",
        "0.",
        ".0",
        ".",
        "-",
        "-.5",
        "1.538",
        "431.72",
        "210.451",
        "1234.567",
        "12345.678",
        "1..2",
        "00.5",
        "-0.5",
        "1e1",
        "1.5E1",
        "1.234567890123456",
        "+1",
    ];

    /// As JSON has it, in as many words.
    fn is_number(text: &str) -> bool {
        let number = text.strip_prefix('-').unwrap_or(text);
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let count = number.bytes().filter(u8::is_ascii_digit).count();
        digits(whole)
            && digits(part)
            && (whole == "0" || !whole.starts_with('0'))
            && count <= MOST_DIGITS
    }

    #[test]
    fn a_number_is_found_whatever_its_form_and_however_little_follows() {
        for form in FORMS {
            for follows in (0..12).map(|length| &",\"text\":1234"[..length]) {
                let text = format!("{form}{follows}");
                let expected = is_number(form).then_some(form.len());
                assert_eq!(number_length(text.as_bytes()), expected, "{text}");
                let skipped = skip_number(text.as_bytes()).map(|rest| text.len() - rest.len());
                match expected {
                    Some(_) => assert_eq!(skipped, expected, "{text}"),
                    // What is skipped of it leaves what no literal begins with.
                    None => assert!(skipped.is_none_or(|length| length < form.len()), "{text}"),
                }
            }
        }
    }

    #[test]
    fn a_second_fraction_is_left() {
        for text in ["1.2.3", "1.2.34567", "123456.7.8"] {
            let rest = skip_number(text.as_bytes()).unwrap();
            assert_eq!(rest, &text.as_bytes()[text.rfind('.').unwrap()..]);
        }
    }

    #[test]
    fn a_byte_that_is_no_digit_ends_a_number_wherever_it_is() {
        for byte in (0..=u8::MAX).filter(|b| !b.is_ascii_digit() && !b"-.eE".contains(b)) {
            for (length, at) in (1..12).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let mut text = vec![b'1'; length];
                text[at] = byte;
                let skipped = skip_number(&text).map(|rest| length - rest.len());
                assert_eq!(skipped, (at > 0).then_some(at), "{byte} at {at} of {length}");
            }
        }
    }

    #[test]
    fn numbers_of_so_many_digits_only() {
        for number in 0..=9999_u32 {
            for end in [",", "}", ",\"a\":1", "", " ", ".", ".0", "e1"] {
                let text = format!("{number}{end}");
                let plain = end.starts_with([',', '}']);
                let one = one_digit(text.as_bytes()).map(|(read, rest)| (read, rest.len()));
                assert_eq!(one, (plain && number < 10).then_some((number, end.len())), "{text}");
                let three =
                    three_digits(text.as_bytes()).map(|(read, rest)| (read.into(), rest.len()));
                let expected = plain && (100..1000).contains(&number);
                assert_eq!(three, expected.then_some((number, end.len())), "{text}");
            }
        }
        assert_eq!(three_digits(b"012,"), None);
    }
}
