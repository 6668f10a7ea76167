//! RTF to the text and the HTML that it encodes.
//!
//! RTF made from HTML or from text carries its origin: MS-OXRTFEX. HTML is in groups `{\*\htmltag
//! …}`. It is also in the text outside what `\htmlrtf … \htmlrtf0` encloses. Read so, it is
//! exactly the HTML that the sender wrote. All other RTF is converted: paragraphs, bold, italic,
//! underlined and struck text, links. Lists become paragraphs with their bullets. A text box is
//! where it is anchored. Pictures are parts of the message: [`super::pictures`]. Text that a
//! tracked change deletes is left out.

use std::collections::HashMap;

use posthaste_mime_summary::InBounds;

use super::pictures::{PICTURES_MAX, Picture, Pictures};
use super::simple::{Position, Simple, take_back};
use super::style::{BOLD, DELETED, HIDDEN, ITALIC, STRUCK, Style, UNDERLINED, UNSEEN};
use super::token::{Token, Tokens};
use super::words::{self, SYMBOL};
use crate::charset;
use crate::error::Damage;

/// The most levels of groups. Word writes some twenty; each costs 64 bytes.
pub const GROUPS_MAX: usize = 1000;

/// The most tokens that are read to find the format from which a document was made: MS-OXRTFEX
/// §2.2.3.1 says ten. Some writers put their own words in between.
const ORIGIN_TOKENS: usize = 20;

/// The format from which RTF was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// HTML, which it encapsulates.
    Html,
    /// Text, which it encapsulates.
    Text,
    /// Nothing else: it was written as RTF.
    Rtf,
}

/// The contents of RTF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The format from which it was made.
    pub origin: Origin,
    /// The text, lines ended by CRLF.
    pub text: String,
    /// The HTML; `None` if it was made from text.
    pub html: Option<String>,
    /// The pictures that the HTML shows. Those of encapsulated HTML are attachments.
    pub pictures: Vec<Picture>,
    /// The number of pictures that the text does not show.
    pub unshown: usize,
}

/// The format from which RTF was made.
pub fn origin(rtf: &[u8]) -> Origin {
    let mut tokens = Tokens::new(rtf).take(ORIGIN_TOKENS);
    if tokens.next() != Some(Token::Open) || !matches!(tokens.next(), Some(Token::Word(b"rtf", _))) {
        return Origin::Rtf;
    }
    tokens
        .find_map(|token| match token {
            Token::Word(b"fromhtml", Some(1)) => Some(Origin::Html),
            Token::Word(b"fromtext", _) => Some(Origin::Text),
            _ => None,
        })
        .unwrap_or(Origin::Rtf)
}

/// Reads RTF. `limit` is the most bytes that text and HTML may have together. Pictures are read
/// as [`super::decompress_to_read`] leaves them.
pub fn read(rtf: &[u8], limit: usize) -> Result<Document, Damage> {
    read_within(rtf, limit, PICTURES_MAX)
}

/// The same, with so many different pictures at most.
pub(crate) fn read_within(rtf: &[u8], limit: usize, pictures_max: usize) -> Result<Document, Damage> {
    let origin = origin(rtf);
    let out = match origin {
        Origin::Rtf => Out::Simple(Simple::new()),
        Origin::Html => Out::Html(String::new()),
        Origin::Text => Out::Text(String::new()),
    };
    let document = |text, html| Document { origin, text, html, pictures: Vec::new(), unshown: 0 };
    let (out, pictures) = run(rtf, out, (limit, pictures_max))?;
    match out {
        Out::Simple(simple) => {
            let (text, html) = simple.finish();
            let Pictures { all, unshown, .. } = pictures;
            Ok(Document { pictures: all, unshown, ..document(text, Some(html)) })
        }
        Out::Text(text) => Ok(document(text, None)),
        Out::Html(html) => {
            // As text, it is shown by a program that knows only RTF.
            let left = limit.saturating_sub(html.len());
            match run(rtf, Out::Simple(Simple::without_html()), (left, 0))?.0 {
                Out::Simple(simple) => Ok(document(simple.finish().0, Some(html))),
                Out::Text(text) | Out::Html(text) => Ok(document(text, Some(html))),
            }
        }
    }
}

/// The output that a document becomes.
enum Out {
    /// Encapsulated HTML, as it was.
    Html(String),
    /// Encapsulated text, as it was.
    Text(String),
    /// Text and HTML made here.
    Simple(Simple),
}

/// The end of a line of text.
#[derive(Debug, Clone, Copy)]
enum LineEnd {
    WithinParagraph,
    OfParagraph,
}

/// The destination of a group's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Document,
    HtmlTag,
    FontTable,
    FieldInstruction,
    /// The properties of a shape. Of the shape, its text and its pictures are part of the
    /// document.
    Shape,
    Picture,
    Nowhere,
}

/// The state of a document at a place, so that it can be taken back to it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    out: Position,
    instruction: usize,
}

/// The state that ends with its group.
#[derive(Debug, Clone, Copy)]
struct Group {
    destination: Destination,
    code_page: u32,
    /// Characters to skip after `\u`.
    fallback: u32,
    style: Style,
    /// Inside `\htmlrtf`: for programs that know RTF alone.
    is_rtf_only: bool,
    /// A link's number, counted from 1.
    link: u32,
    /// The place where the shape began that this group is in: the text before it, and the
    /// pictures.
    shape: Option<(usize, usize)>,
    /// The place where the text began that is here in two forms: `\upr`.
    two_forms: Option<Mark>,
}

struct Machine {
    out: Out,
    limit: usize,
    groups: Vec<Group>,
    group: Group,
    /// Bytes of text in the current code page, not yet characters: two of them may make one.
    pending: Vec<u8>,
    /// The first half of a surrogate pair.
    surrogate: Option<u16>,
    skip: u32,
    /// `\*` was the last token.
    is_optional: bool,
    fonts: HashMap<i32, u32>,
    font_default: i32,
    /// The font that the font table describes.
    font_described: i32,
    code_page_default: u32,
    instruction: String,
    pictures: Pictures,
}

/// Reads RTF, with these limits of bytes and of pictures.
fn run(rtf: &[u8], out: Out, (limit, pictures): (usize, usize)) -> Result<(Out, Pictures), Damage> {
    let group = Group {
        destination: Destination::Document,
        code_page: 1252,
        fallback: 1,
        style: 0,
        is_rtf_only: false,
        link: 0,
        shape: None,
        two_forms: None,
    };
    let mut machine = Machine {
        out,
        limit,
        groups: Vec::new(),
        group,
        pending: Vec::new(),
        surrogate: None,
        skip: 0,
        is_optional: false,
        fonts: HashMap::new(),
        font_default: 0,
        font_described: 0,
        code_page_default: 1252,
        instruction: String::new(),
        pictures: Pictures::new(pictures),
    };
    let mut tokens = Tokens::new(rtf);
    while let Some(token) = tokens.next() {
        machine.token(token)?;
        if let Some(data) = tokens.take_data().filter(|_| machine.group.destination == Destination::Picture) {
            machine.pictures.data(data);
        }
    }
    if let Some(left) = tokens.cut() {
        return Err(Damage::Truncated { what: "binary data of its RTF", at: rtf.len() - left });
    }
    if !machine.groups.is_empty() {
        return Err(Damage::Unclosed { groups: machine.groups.len() });
    }
    machine.flush()?;
    Ok((machine.out, machine.pictures))
}

impl Machine {
    fn token(&mut self, token: Token<'_>) -> Result<(), Damage> {
        let was_optional = std::mem::take(&mut self.is_optional);
        match token {
            Token::Text(bytes) => {
                let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
                self.skip -= skipped as u32;
                self.bytes(bytes.in_bounds(skipped..));
            }
            Token::Hex(byte) if self.skip == 0 => self.bytes(&[byte]),
            Token::Open => {
                self.flush()?;
                self.skip = 0;
                if self.groups.len() >= GROUPS_MAX {
                    return Err(Damage::Groups { limit: GROUPS_MAX });
                }
                self.groups.push(self.group);
            }
            Token::Close => {
                self.flush()?;
                self.skip = 0;
                self.close()?;
            }
            // RTF 1.9.1, `\uc`: each of these counts as one character.
            Token::Hex(_) | Token::Symbol(_) | Token::Word(..) if self.skip > 0 => self.skip -= 1,
            Token::Symbol(b'*') => self.is_optional = true,
            Token::Symbol(symbol) => {
                self.flush()?;
                if let Some((text, html)) = words::symbol(symbol) {
                    self.put(text, html)?;
                }
            }
            Token::Word(b"u", Some(number)) => self.unicode(number)?,
            Token::Word(word, number) => {
                self.flush()?;
                self.word(word, number, was_optional)?;
            }
            Token::Hex(_) => {}
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Damage> {
        let Some(outer) = self.groups.pop() else { return Ok(()) };
        let inner = std::mem::replace(&mut self.group, outer);
        if inner.destination == Destination::FontTable && outer.destination != inner.destination {
            // RTF 1.9.1, `\deff`: text has the default font until another is chosen. Its charset 0
            // is the document's own code page.
            if let Some(code_page) = self.fonts.get(&self.font_default).filter(|page| **page != 1252) {
                self.group.code_page = *code_page;
            }
        }
        if inner.destination == Destination::FieldInstruction && outer.destination != inner.destination {
            let instruction = std::mem::take(&mut self.instruction);
            if let (Some(url), Out::Simple(simple)) = (link_of(&instruction), &mut self.out) {
                // The text of the link is in a sister group, so the link is the outer group's.
                self.group.link = simple.begin_link(url);
            }
        }
        if inner.destination == Destination::Document && outer.destination == Destination::Shape {
            self.end_paragraph();
        }
        if inner.destination == Destination::Picture
            && outer.destination != inner.destination
            && let (Some(element), Out::Simple(simple)) = (self.pictures.end(), &mut self.out)
        {
            simple.picture(&element, inner.link);
        }
        if inner.link != outer.link
            && let Out::Simple(simple) = &mut self.out
        {
            simple.end_link(inner.link);
        }
        self.check()
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let unread = [Destination::Nowhere, Destination::FontTable, Destination::Shape, Destination::Picture];
        if !unread.contains(&self.group.destination) {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Makes characters of the bytes that wait.
    fn flush(&mut self) -> Result<(), Damage> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.pending);
        // MS-OXRTFEX §2.2.3.2: HTML is in the document's code page, whatever the font.
        let code_page = match self.group.destination {
            Destination::HtmlTag => self.code_page_default,
            _ => self.group.code_page,
        };
        self.surrogate = None;
        if code_page == SYMBOL {
            let text: String = bytes.iter().map(|byte| words::in_symbol_font(*byte)).collect();
            self.put_text(&text)?;
        } else {
            self.put_text(&charset::decode(code_page, &bytes))?;
        }
        // The room is used again.
        self.pending = bytes;
        self.pending.clear();
        Ok(())
    }

    /// `\u`: one unit of UTF-16, as a signed number.
    fn unicode(&mut self, number: i32) -> Result<(), Damage> {
        self.flush()?;
        self.skip = self.group.fallback;
        let unit = (number & 0xFFFF) as u16;
        let pair = [self.surrogate.take().unwrap_or_default(), unit];
        let mut text = [0; 4];
        match unit {
            0 => return Ok(()),
            0xD800..=0xDBFF => {
                self.surrogate = Some(unit);
                return Ok(());
            }
            _ => {}
        }
        let from = usize::from(!(0xDC00..=0xDFFF).contains(&unit) || pair[0] == 0);
        for character in char::decode_utf16(pair.into_iter().skip(from)) {
            let text = character.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut text);
            self.put(text, text)?;
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8], number: Option<i32>, is_optional: bool) -> Result<(), Damage> {
        let is_on = number != Some(0);
        match word {
            b"line" | b"par" if self.is_deleted() => {}
            b"line" => return self.line_end(LineEnd::WithinParagraph),
            b"par" | b"row" | b"page" | b"sect" => return self.line_end(LineEnd::OfParagraph),
            b"b" => self.style(BOLD, is_on),
            b"i" => self.style(ITALIC, is_on),
            b"ul" => self.style(UNDERLINED, is_on),
            b"ulnone" => self.style(UNDERLINED, false),
            b"strike" => self.style(STRUCK, is_on),
            b"v" => self.style(HIDDEN, is_on),
            // RTF 1.9.1, Track Changes: the place from which text was moved, as well.
            b"deleted" | b"mvf" => self.style(DELETED, is_on),
            b"plain" => {
                self.group.style = 0;
                self.font(self.font_default);
            }
            b"htmlrtf" => self.group.is_rtf_only = is_on,
            b"f" => self.font(number.unwrap_or_default()),
            b"fcharset" | b"cpg" => self.font_charset(word, number.unwrap_or_default()),
            b"deff" => self.font_default = number.unwrap_or_default(),
            b"ansicpg" | b"mac" | b"pc" | b"pca" => self.code_page(word, number),
            b"uc" => self.group.fallback = number.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            b"fonttbl" => self.group.destination = Destination::FontTable,
            b"fldinst" => self.group.destination = Destination::FieldInstruction,
            b"shp" | b"shpgrp" | b"shpinst" | b"shptxt" | b"shprslt" | b"do" | b"dptxbxtext" => {
                self.shape(word);
            }
            b"pict" => self.picture(),
            _ if self.group.destination == Destination::Picture && !is_optional => {
                self.pictures.word(word, number);
            }
            b"upr" => self.group.two_forms = Some(self.mark()),
            b"ud" if is_optional && self.group.two_forms.is_some() => self.second_form(),
            b"htmltag" if is_optional => self.group.destination = Destination::HtmlTag,
            // MS-OXRTFEX §2.1.3.1.7: a copy of the HTML for one program; ignored.
            b"mhtmltag" => self.group.destination = Destination::Nowhere,
            _ if words::is_skipped(word) => self.group.destination = Destination::Nowhere,
            _ => match words::character(word) {
                Some((text, html)) => return self.put(text, html),
                None if is_optional && word != b"shppict" => {
                    self.group.destination = Destination::Nowhere;
                }
                None => {}
            },
        }
        Ok(())
    }

    /// A word of a shape. RTF 1.9.1: `{\shp{\*\shpinst … {\shptxt text}}{\shprslt …}}`, or
    /// `{\*\do … {\dptxbxtext text}}` of older programs. The result (`\shprslt`) is the shape for
    /// readers that know no shapes. It counts where the shape has no words of its own.
    fn shape(&mut self, word: &[u8]) {
        let Out::Simple(simple) = &self.out else {
            // MS-OXRTFEX §2.1.3: a shape is no part of what RTF encapsulates.
            if matches!(word, b"shpinst" | b"do") {
                self.group.destination = Destination::Nowhere;
            }
            return;
        };
        let is_shown = matches!(self.group.destination, Destination::Document | Destination::Shape);
        match word {
            b"shp" | b"shpgrp" => self.group.shape = Some((simple.len_of_text(), self.pictures.shown)),
            b"shpinst" | b"do" if is_shown => self.group.destination = Destination::Shape,
            b"shpinst" | b"do" => self.group.destination = Destination::Nowhere,
            b"shprslt"
                if self
                    .group
                    .shape
                    .is_some_and(|(at, shown)| simple.has_words_from(at) || self.pictures.shown > shown) =>
            {
                self.group.destination = Destination::Nowhere;
            }
            b"shptxt" | b"dptxbxtext" if self.group.destination == Destination::Shape => {
                self.group.destination = Destination::Document;
                self.end_paragraph();
            }
            _ => {}
        }
    }

    /// `\pict`: a picture where text would be shown. HTML that is encapsulated has its own.
    fn picture(&mut self) {
        let Group { destination, style, .. } = self.group;
        let is_shown = matches!(destination, Destination::Document | Destination::Shape);
        self.group.destination = match &self.out {
            Out::Simple(simple) if simple.has_html() && is_shown && style & UNSEEN == 0 => {
                self.pictures.begin();
                Destination::Picture
            }
            _ => Destination::Nowhere,
        };
    }

    /// Ends the line, if anything is on it.
    fn end_paragraph(&mut self) {
        if let Out::Simple(simple) = &mut self.out {
            simple.end_paragraph();
        }
    }

    fn mark(&self) -> Mark {
        let out = match &self.out {
            Out::Html(text) | Out::Text(text) => Position::at(text.len()),
            Out::Simple(simple) => simple.place(),
        };
        Mark { out, instruction: self.instruction.len() }
    }

    /// RTF 1.9.1, `\upr`: the second form is Unicode. It takes the place of the first one.
    fn second_form(&mut self) {
        let Some(Mark { out, instruction }) = self.group.two_forms else { return };
        match &mut self.out {
            Out::Html(text) | Out::Text(text) => take_back(text, out.len_of_text()),
            Out::Simple(simple) => simple.back_to(out),
        }
        // Another field may have ended meanwhile, and taken the instruction.
        take_back(&mut self.instruction, instruction);
        self.surrogate = None;
    }

    fn style(&mut self, bit: Style, is_on: bool) {
        self.group.style = if is_on { self.group.style | bit } else { self.group.style & !bit };
    }

    /// Whether a tracked change deletes what is here. The mark of a paragraph may be deleted: then
    /// the paragraph goes on.
    fn is_deleted(&self) -> bool {
        let Group { destination, style, .. } = self.group;
        style & DELETED != 0 && destination == Destination::Document && matches!(self.out, Out::Simple(_))
    }

    fn font(&mut self, number: i32) {
        if self.group.destination == Destination::FontTable {
            self.font_described = number;
        } else {
            self.group.code_page = self.fonts.get(&number).copied().unwrap_or(self.code_page_default);
        }
    }

    fn font_charset(&mut self, word: &[u8], number: i32) {
        if self.group.destination != Destination::FontTable {
            return;
        }
        let code_page = match word {
            b"cpg" => u32::try_from(number).ok(),
            _ => words::code_page(number),
        };
        // The character set comes first. A code page may follow it.
        self.fonts.insert(self.font_described, code_page.unwrap_or(self.code_page_default));
    }

    fn code_page(&mut self, word: &[u8], number: Option<i32>) {
        let code_page = match word {
            b"mac" => 10_000,
            b"pc" => 437,
            b"pca" => 850,
            _ => number.and_then(|n| u32::try_from(n).ok()).filter(|n| *n != 0).unwrap_or(1252),
        };
        self.code_page_default = code_page;
        self.group.code_page = code_page;
    }

    fn line_end(&mut self, end: LineEnd) -> Result<(), Damage> {
        match (&mut self.out, self.group.destination) {
            (Out::Simple(simple), Destination::Document) => {
                match end {
                    LineEnd::WithinParagraph => simple.line(),
                    LineEnd::OfParagraph => simple.paragraph(),
                }
                self.check()
            }
            _ => self.put("\r\n", "\r\n"),
        }
    }

    /// Text of any length. Its length is checked after each piece: in HTML, a tab takes 19 bytes.
    fn put_text(&mut self, text: &str) -> Result<(), Damage> {
        const PIECE: usize = 4096;
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            self.put(piece, piece)?;
            rest = after;
        }
        Ok(())
    }

    /// Text of the document, in the two forms of [`words::character`].
    fn put(&mut self, text: &str, html: &str) -> Result<(), Damage> {
        let Group { destination, style, is_rtf_only, link, .. } = self.group;
        match (destination, &mut self.out) {
            (Destination::FieldInstruction, _) => self.instruction.push_str(text),
            (Destination::Document, Out::Simple(simple)) if style & UNSEEN == 0 => {
                simple.text(text, style, link);
            }
            (Destination::Document | Destination::HtmlTag, Out::Html(out)) if !is_rtf_only => {
                out.push_str(html);
            }
            (Destination::Document, Out::Text(out)) if !is_rtf_only => out.push_str(text),
            _ => {}
        }
        self.check()
    }

    fn check(&self) -> Result<(), Damage> {
        let len = match &self.out {
            Out::Html(text) | Out::Text(text) => text.len(),
            Out::Simple(simple) => simple.len(),
        };
        if len > self.limit { Err(Damage::Expands { limit: self.limit }) } else { Ok(()) }
    }
}

/// The address of a field's instruction: `HYPERLINK "http://…"`. Only of schemes that are safe to
/// follow from mail.
fn link_of(instruction: &str) -> Option<&str> {
    let rest = instruction.trim().strip_prefix("HYPERLINK")?.trim_start();
    let url = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split_whitespace().next()?,
    };
    let scheme = url.split_once(':')?.0.to_ascii_lowercase();
    ["http", "https", "mailto", "ftp", "tel"].contains(&scheme.as_str()).then_some(url)
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
