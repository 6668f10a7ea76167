//! HTML as plain text, for messages that have HTML alone.
//!
//! Invariant: the text is not longer than the HTML. Lines end with LF.

use posthaste_mime_summary::InBounds;

/// Names of entities that mail often has, and their characters. Others stay as they are.
const ENTITIES: &[(&str, char)] = &[
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("copy", '\u{a9}'),
    ("reg", '\u{ae}'),
    ("deg", '\u{b0}'),
    ("middot", '\u{b7}'),
    ("laquo", '\u{ab}'),
    ("raquo", '\u{bb}'),
    ("Auml", '\u{c4}'),
    ("Ouml", '\u{d6}'),
    ("Uuml", '\u{dc}'),
    ("szlig", '\u{df}'),
    ("agrave", '\u{e0}'),
    ("auml", '\u{e4}'),
    ("ccedil", '\u{e7}'),
    ("egrave", '\u{e8}'),
    ("eacute", '\u{e9}'),
    ("ouml", '\u{f6}'),
    ("uuml", '\u{fc}'),
    ("ndash", '\u{2013}'),
    ("mdash", '\u{2014}'),
    ("lsquo", '\u{2018}'),
    ("rsquo", '\u{2019}'),
    ("ldquo", '\u{201c}'),
    ("rdquo", '\u{201d}'),
    ("bull", '\u{2022}'),
    ("hellip", '\u{2026}'),
    ("euro", '\u{20ac}'),
    ("trade", '\u{2122}'),
];

/// Elements whose content is not shown.
const HIDDEN: &[&str] = &["script", "style", "title"];
/// Elements that begin and end a line.
const LINES: &[&str] = &["br", "div", "tr", "li", "hr", "dt", "dd", "ul", "ol"];
/// Elements with a blank line around them.
const BLOCKS: &[&str] = &["p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "table", "pre"];

/// The text that HTML shows. One pass.
pub(super) fn text_of(html: &str) -> String {
    let mut text = Text::default();
    let mut rest = html;
    while !rest.is_empty() {
        let len = memchr::memchr2(b'<', b'&', rest.as_bytes()).unwrap_or(rest.len());
        let (words, mark) = rest.split_at(len);
        text.words(words);
        rest = match mark.as_bytes().first() {
            Some(b'<') => text.tag(mark),
            Some(_) => text.entity(mark),
            None => "",
        };
    }
    text.out
}

#[derive(Default)]
struct Text {
    out: String,
    /// Line ends to write before the next word.
    breaks: usize,
    /// Whether a space stands before the next word.
    has_space: bool,
    /// Whether line ends are kept: within `<pre>`.
    keeps_lines: bool,
}

impl Text {
    fn words(&mut self, words: &str) {
        for character in words.chars() {
            match character {
                '\n' if self.keeps_lines => self.breaks += 1,
                character if character.is_whitespace() => self.has_space = true,
                character => self.character(character),
            }
        }
    }

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

    /// A tag or a comment; returns what follows it.
    fn tag<'h>(&mut self, html: &'h str) -> &'h str {
        if html.starts_with("<!--") {
            return memchr::memmem::find(html.as_bytes(), b"-->").map_or("", |at| html.in_bounds(at + 3..));
        }
        let name = html.in_bounds(1..);
        let (is_end, name) = name.strip_prefix('/').map_or((false, name), |name| (true, name));
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?')) {
            self.character('<');
            return html.in_bounds(1..);
        }
        let len = name.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let name = name.in_bounds(..len);
        let is = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
        let rest = after_tag(html);
        if is(HIDDEN) && !is_end {
            return after_element(rest, name);
        }
        if is(BLOCKS) {
            self.breaks = self.breaks.max(2);
        } else if is(LINES) {
            self.breaks = self.breaks.max(1);
        } else if is(&["td", "th"]) {
            self.has_space = true;
        }
        if is(&["pre"]) {
            self.keeps_lines = !is_end;
        }
        rest
    }

    /// An entity; returns what follows it. What is none is text.
    fn entity<'h>(&mut self, html: &'h str) -> &'h str {
        const NAME_MAX: usize = 10;
        let rest = html.in_bounds(1..);
        let len = rest.bytes().take(NAME_MAX).take_while(|b| b.is_ascii_alphanumeric() || *b == b'#').count();
        let (name, after) = rest.split_at(len);
        let number = name.strip_prefix('#').and_then(|number| match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => number.parse().ok(),
        });
        let named = || ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, character)| *character);
        match number.and_then(char::from_u32).filter(|c| !c.is_control()).or_else(named) {
            Some(character) if character == ' ' || character == '\u{a0}' => self.has_space = true,
            Some(character) => self.character(character),
            None => {
                self.character('&');
                return rest;
            }
        }
        after.strip_prefix(';').unwrap_or(after)
    }
}

/// What follows a tag. Quoted values may have a `>`.
fn after_tag(html: &str) -> &str {
    let mut quote = None;
    for (at, byte) in html.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return html.in_bounds(at + 1..),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    ""
}

/// What follows the end tag of an element.
fn after_element<'h>(html: &'h str, name: &str) -> &'h str {
    let is_end = |at: &usize| {
        let tag = html.as_bytes().get(at + 1..).and_then(|rest| rest.strip_prefix(b"/"));
        tag.and_then(|tag| tag.get(..name.len())).is_some_and(|tag| tag.eq_ignore_ascii_case(name.as_bytes()))
    };
    let end = memchr::memchr_iter(b'<', html.as_bytes()).find(is_end);
    end.map_or("", |at| after_tag(html.in_bounds(at..)))
}

#[cfg(test)]
mod tests {
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
            ("<a", ""),
            ("<style>never closed", ""),
        ] {
            assert_eq!(text_of(html), text, "{html}");
        }
    }

    proptest! {
        #[test]
        fn the_text_is_no_longer(html in "(<p>|<br>|</|<|>|&lt;|&#|&#65|;|a|\u{fc}|\n|<pre>|<style>|\"){0,60}") {
            prop_assert!(text_of(&html).len() <= html.len(), "{}", html);
        }
    }
}
