//! The text of a sysctl → its number. Pure.

/// One number and a line feed.
pub(super) fn number(text: &str) -> Option<u32> {
    text.trim_ascii().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_is_a_number() {
        for (text, value) in
            [("7200\n", Some(7200)), ("9", Some(9)), ("", None), ("-1\n", None), ("1\t2\n", None)]
        {
            assert_eq!(number(text), value, "{text:?}");
        }
    }
}
