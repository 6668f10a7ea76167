//! HTML as the text that a reader sees, more or less: without tags, with its entities decoded.
//!
//! Comments, and elements that show nothing, are left out. The HTML comes in pieces of any
//! length. A construct that a piece cuts is kept: a name at most. So the work is linear and the
//! memory bounded, whatever the text is.
//!
//! A [`Layout`] decides the effect of a tag. For previews and searches the layout is a `String`:
//! the tag of an element within a word is nothing, any other tag is a blank. A text with lines is
//! that of [`crate::html_lines`].

use std::borrow::Cow;

use mail_parser::decoders::html::add_html_token;
use memchr::memmem;

use crate::in_bounds::InBounds;
use crate::piece::Piece;

/// Longest entity, in bytes: `&CounterClockwiseContourIntegral;`.
const ENTITY_LEN_MAX: usize = 33;

/// Bytes that say which tag it is: `</blockquote>` has the longest name of those that matter.
const TAG_LOOK_MAX: usize = 16;

/// Elements within a word: their tags are no blanks.
const WITHIN_WORDS: [u64; 28] = [
    packed("a"),
    packed("abbr"),
    packed("acronym"),
    packed("b"),
    packed("bdi"),
    packed("bdo"),
    packed("big"),
    packed("cite"),
    packed("code"),
    packed("del"),
    packed("dfn"),
    packed("em"),
    packed("font"),
    packed("i"),
    packed("ins"),
    packed("kbd"),
    packed("mark"),
    packed("q"),
    packed("s"),
    packed("samp"),
    packed("small"),
    packed("span"),
    packed("strike"),
    packed("strong"),
    packed("sub"),
    packed("sup"),
    packed("u"),
    packed("wbr"),
];

/// A name in lower case as one number, to be compared at once; 0 if it is longer than 8 bytes.
const fn packed(name: &str) -> u64 {
    let (name, mut all, mut at) = (name.as_bytes(), 0, 0);
    if name.len() > 8 {
        return 0;
    }
    while at < name.len() {
        all = all << 8 | name[at].to_ascii_lowercase() as u64;
        at += 1;
    }
    all
}

/// Whether the tag of this element may be within a word, and does not separate words.
pub(crate) fn is_within_word(name: &str) -> bool {
    WITHIN_WORDS.contains(&packed(name))
}

/// Elements whose content is no text.
const HIDDEN: [&str; 3] = ["style", "script", "title"];

/// Parts of the visible text of HTML.
pub(crate) trait Layout {
    /// Text without tags and entities.
    fn text(&mut self, text: &str);
    /// The character of an entity. Text that only looks like an entity is passed unchanged.
    fn entity(&mut self, character: &str);
    /// The begin or the end of an element.
    fn tag(&mut self, name: &str, tag: Tag);
}

/// The kind of a tag: it begins or ends an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Begin,
    End,
}

impl Layout for String {
    fn text(&mut self, text: &str) {
        push_seen(text, self);
    }

    fn entity(&mut self, character: &str) {
        if !character.chars().all(is_unseen) {
            self.push_str(character);
        }
    }

    fn tag(&mut self, name: &str, _: Tag) {
        // Words of neighbouring elements do not run together.
        if !is_within_word(name) {
            self.push(' ');
        }
    }
}

/// Turns HTML into text, piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Rendering {
    within: Inside,
    /// Whether the last byte of the tag so far that is no blank is `=`.
    is_value: bool,
    /// The last entity.
    entity: String,
    /// The beginning of a construct whose end is in a later piece.
    kept: String,
}

/// The place in the HTML.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Inside {
    #[default]
    Text,
    Comment,
    /// A tag. The content of the element that it begins, if that shows nothing.
    Tag(Option<&'static str>),
    /// The value of an attribute in a tag, up to this quotation mark.
    Value(Option<&'static str>, u8),
    /// The content of an element that shows nothing.
    Hidden(&'static str),
}

impl Rendering {
    /// Appends the text of the next piece.
    pub(crate) fn push(&mut self, html: &str, into: &mut impl Layout) {
        self.run(html, Piece::Next, into);
    }

    /// Appends the rest after the last piece.
    pub(crate) fn finish(&mut self, into: &mut impl Layout) {
        self.run("", Piece::Last, into);
    }

    fn run(&mut self, html: &str, piece: Piece, into: &mut impl Layout) {
        let kept = std::mem::take(&mut self.kept);
        let all: Cow<'_, str> = if kept.is_empty() { html.into() } else { (kept + html).into() };
        let mut rest: &str = &all;
        while !rest.is_empty() {
            let left = match self.within {
                Inside::Text => self.text(rest, piece, into),
                Inside::Tag(hidden) => self.tag(rest, hidden),
                Inside::Value(hidden, mark) => self.value(rest, hidden, mark),
                Inside::Comment => self.comment(rest),
                Inside::Hidden(name) => self.hidden(rest, name, piece),
            };
            match left {
                Some(left) => rest = left,
                None if piece == Piece::Next => return rest.clone_into(&mut self.kept),
                None => return,
            }
        }
    }

    /// Text up to the next tag or entity, and that. `None` if this is all of it, and cut.
    fn text<'t>(&mut self, rest: &'t str, piece: Piece, into: &mut impl Layout) -> Option<&'t str> {
        let at = memchr::memchr2(b'<', b'&', rest.as_bytes()).unwrap_or(rest.len());
        if at > 0 {
            into.text(rest.in_bounds(..at));
            return Some(rest.in_bounds(at..));
        }
        let bytes = rest.as_bytes();
        let is_cut = |needed: usize| piece == Piece::Next && bytes.len() < needed;
        match bytes {
            [b'&', name @ ..] => {
                let name = name.in_bounds(..name.len().min(ENTITY_LEN_MAX - 1));
                match name.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'#') {
                    None if is_cut(ENTITY_LEN_MAX) => return None,
                    Some(len) if name.get(len) == Some(&b';') => {
                        let (entity, after) = rest.split_at_checked(len + 2).unwrap_or((rest, ""));
                        self.entity.clear();
                        add_html_token(&mut self.entity, entity.as_bytes(), false);
                        into.entity(&self.entity);
                        return Some(after);
                    }
                    _ => {}
                }
                into.text("&");
                Some(rest.in_bounds(1..))
            }
            _ if is_cut(TAG_LOOK_MAX) && !bytes.contains(&b'>') => None,
            [_, b'!', b'-', b'-', ..] => {
                self.within = Inside::Comment;
                Some(rest.in_bounds(4..))
            }
            [_, b'a'..=b'z' | b'A'..=b'Z' | b'/' | b'!' | b'?', ..] => {
                let inner = rest.in_bounds(1..);
                let is_end = inner.starts_with('/');
                let name = inner.trim_start_matches('/');
                let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
                let named = |known: &&str| name.eq_ignore_ascii_case(known);
                into.tag(name, if is_end { Tag::End } else { Tag::Begin });
                self.is_value = false;
                self.within = Inside::Tag(HIDDEN.into_iter().find(named).filter(|_| !is_end));
                Some(inner)
            }
            // A character of the text: `a < b`.
            _ => {
                into.text("<");
                Some(rest.in_bounds(1..))
            }
        }
    }

    /// A tag up to its end, or to a value in quotation marks.
    fn tag<'t>(&mut self, rest: &'t str, hidden: Option<&'static str>) -> Option<&'t str> {
        let at = memchr::memchr3(b'>', b'"', b'\'', rest.as_bytes());
        let before = rest.in_bounds(..at.unwrap_or(rest.len())).trim_ascii_end();
        let is_value = if before.is_empty() { self.is_value } else { before.ends_with('=') };
        self.is_value = is_value && at.is_none();
        let Some(at) = at else { return Some("") };
        match rest.as_bytes().get(at) {
            Some(b'>') => self.within = hidden.map_or(Inside::Text, Inside::Hidden),
            Some(mark) if is_value => self.within = Inside::Value(hidden, *mark),
            _ => {}
        }
        Some(rest.in_bounds(at + 1..))
    }

    /// A value in quotation marks may have a `>`.
    fn value<'t>(&mut self, rest: &'t str, hidden: Option<&'static str>, mark: u8) -> Option<&'t str> {
        let Some(end) = memchr::memchr(mark, rest.as_bytes()) else { return Some("") };
        self.within = Inside::Tag(hidden);
        Some(rest.in_bounds(end + 1..))
    }

    fn comment<'t>(&mut self, rest: &'t str) -> Option<&'t str> {
        if let Some(end) = memmem::find(rest.as_bytes(), b"-->") {
            self.within = Inside::Text;
            return Some(rest.in_bounds(end + 3..));
        }
        // The beginning of an end may be cut.
        match rest.len() - rest.trim_end_matches('-').len() {
            0 => Some(""),
            dashes if dashes == rest.len() && dashes <= 2 => None,
            dashes => Some(rest.in_bounds(rest.len() - dashes.min(2)..)),
        }
    }

    fn hidden<'t>(&mut self, rest: &'t str, name: &'static str, piece: Piece) -> Option<&'t str> {
        let Some(at) = memchr::memchr(b'<', rest.as_bytes()) else { return Some("") };
        if at > 0 {
            return Some(rest.in_bounds(at..));
        }
        if piece == Piece::Next && rest.len() < 2 + name.len() {
            return None;
        }
        let closing = rest.strip_prefix("</").and_then(|inner| inner.get(..name.len()));
        if closing.is_some_and(|closing| closing.eq_ignore_ascii_case(name)) {
            self.within = Inside::Tag(None);
        }
        Some(rest.in_bounds(1..))
    }
}

/// Appends text without the characters that no reader sees within words.
pub(crate) fn push_seen(text: &str, into: &mut String) {
    match text.is_ascii() {
        true => into.push_str(text),
        false => into.extend(text.chars().filter(|c| !is_unseen(*c))),
    }
}

/// A soft hyphen, or a filler without width.
pub(crate) fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}' | '\u{2060}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [(&str, &str); 18] = [
        ("f&uuml;r", "für"),
        ("H<b>e</b>llo", "Hello"),
        ("<p>one</p><p>two</p>", " one  two "),
        ("one<br>two<br/>three", "one two three"),
        ("a &#228;&#xE4; &amp;amp;", "a ää &amp;"),
        ("a & b &nonsense; &", "a & b &nonsense; &"),
        ("a < b > c", "a < b > c"),
        ("x<!-- a > b -- c --->y", "xy"),
        ("<style>p > q { } </style>z", " z"),
        ("<SCRIPT>if (a</b) '</x' </SCRIPT >z", " z"),
        ("<titled>t", " t"),
        ("<img alt=\"a > b\"\n title = 'c>\"d' x>y", " y"),
        ("<p it's >y", " y"),
        ("Do&shy;nau\u{ad}dampf", "Donaudampf"),
        ("a<", "a<"),
        ("a<b", "a"),
        ("<span class=\"x\">日本</span>語&#8212;", "日本語—"),
        ("", ""),
    ];

    fn in_pieces(html: &str, len: usize) -> String {
        let (mut rendering, mut text) = (Rendering::default(), String::new());
        let chars: Vec<char> = html.chars().collect();
        for piece in chars.chunks(len) {
            rendering.push(&piece.iter().collect::<String>(), &mut text);
            assert!(rendering.kept.len() < ENTITY_LEN_MAX, "{}", rendering.kept);
        }
        rendering.finish(&mut text);
        text
    }

    #[test]
    fn readers_see_no_markup() {
        for (html, text) in KNOWN {
            assert_eq!(in_pieces(html, 1000), text, "{html}");
        }
    }

    #[test]
    fn pieces_of_any_length_are_one_text() {
        let all = KNOWN[..14].iter().map(|(html, _)| *html).collect::<Vec<_>>().concat();
        let whole = in_pieces(&all, usize::MAX);
        for len in 1..60 {
            assert_eq!(in_pieces(&all, len), whole, "{len}");
        }
    }

    /// A text of beginnings only, which are never ended.
    #[test]
    fn unterminated_constructs_are_read_in_linear_time() {
        for part in
            ["<", "&", "<!-", "<!--", "</", "<style><", "&#", "-", "<style></style", "<a b=\"", "<a b='>"]
        {
            let html = part.repeat(400_000 / part.len());
            let text = in_pieces(&html, 32 * 1024);
            assert!(text.len() <= html.len(), "{part}");
        }
    }
}
