//! HTML as plain text with lines: for messages that have HTML alone.

use crate::html::{Layout, Rendering, Tag};

/// Elements that begin and end a line.
const LINES: &[&str] = &["br", "div", "tr", "li", "hr", "dt", "dd", "ul", "ol"];
/// Elements with a blank line around them.
const BLOCKS: &[&str] = &["p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "table", "pre"];

/// The text that HTML shows, in lines that end with LF. It is not longer than the HTML.
pub fn html_lines(html: &str) -> String {
    let (mut rendering, mut lines) = (Rendering::default(), Lines::default());
    rendering.push(html, &mut lines);
    rendering.finish(&mut lines);
    lines.out
}

#[derive(Default)]
struct Lines {
    out: String,
    /// Line ends to write before the next word.
    breaks: usize,
    /// Whether a space precedes the next word.
    has_space: bool,
    /// Whether line ends are kept: within `<pre>`.
    keeps_lines: bool,
}

impl Lines {
    fn character(&mut self, character: char) {
        let breaks = std::mem::take(&mut self.breaks);
        let has_space = std::mem::take(&mut self.has_space);
        if !self.out.is_empty() {
            self.out.extend(std::iter::repeat_n('\n', breaks));
            if has_space && breaks == 0 {
                self.out.push(' ');
            }
        }
        self.out.push(character);
    }
}

impl Layout for Lines {
    fn text(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\n' if self.keeps_lines => self.breaks += 1,
                character if character.is_whitespace() => self.has_space = true,
                character => self.character(character),
            }
        }
    }

    fn entity(&mut self, character: &str) {
        for character in character.chars() {
            match character {
                character if character.is_whitespace() => self.has_space = true,
                character if character.is_control() => {}
                character => self.character(character),
            }
        }
    }

    fn tag(&mut self, name: &str, tag: Tag) {
        let is = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
        if is(BLOCKS) {
            self.breaks = self.breaks.max(2);
        } else if is(LINES) {
            self.breaks = self.breaks.max(1);
        } else if is(&["td", "th"]) {
            self.has_space = true;
        }
        if is(&["pre"]) {
            self.keeps_lines = tag == Tag::Begin;
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_entities_and_spaces() {
        for (html, text) in [
            (
                "<html><head><title>x</title><style>p{}</style></head><body><p>a\r\n b</p><p>c<br>d",
                "a b\n\nc\nd",
            ),
            (
                "Gr&uuml;&#223;e &amp; &lt;x&gt;&nbsp;&unknown; 1 < 2 & 3",
                "Gr\u{fc}\u{df}e & <x> &unknown; 1 < 2 & 3",
            ),
            ("<!-- a > b -->x<img alt=\"a > b\">y<script>z</SCRIPT >!", "xy!"),
            ("<pre>a\n  b</pre>c", "a\nb\n\nc"),
            ("<table><tr><td>a</td><td>b</td></tr><tr><td>c", "a b\nc"),
            ("&yen;1 &euro;&shy;2 &#13;&#9;x", "\u{a5}1 \u{20ac}\u{ad}2 x"),
            ("<a", ""),
            ("<style>never closed", ""),
        ] {
            assert_eq!(html_lines(html), text, "{html}");
        }
    }

    properties! {
        #[test]
        fn the_text_is_no_longer(html in "(<p>|<br>|</|<|>|&lt;|&#|&#65|;|a|\u{fc}|\n|<pre>|<style>|\"){0,60}") {
            prop_assert!(html_lines(&html).len() <= html.len(), "{}", html);
        }
    }
}
