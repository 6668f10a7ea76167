//! Text of others for a terminal.

/// A text with its lines, in which other control characters are shown and not sent. A server's
/// answer, or a result of somebody else, could hide or forge with them what a terminal shows.
pub fn for_terminal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() && !matches!(c, '\n' | '\t') {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_and_other_control_characters_are_shown() {
        assert_eq!(for_terminal("a\tµ\nb\n"), "a\tµ\nb\n");
        assert_eq!(for_terminal("\u{1b}]0;x\u{7}\r\u{9b}2J"), "\\u{1b}]0;x\\u{7}\\r\\u{9b}2J");
    }
}
