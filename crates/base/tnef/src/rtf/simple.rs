//! Text and HTML made from RTF that was written as RTF.

use posthaste_mime_summary::InBounds;

use super::style::{BOLD, ITALIC, STRUCK, Style, UNDERLINED};

/// Styles and their elements, outermost first.
const ELEMENTS: [(Style, &str); 4] = [(BOLD, "b"), (ITALIC, "i"), (UNDERLINED, "u"), (STRUCK, "s")];

/// The two forms, as they are written.
pub(super) struct Simple {
    text: String,
    html: Option<Html>,
    /// The end of the text's last word.
    words_end: usize,
    /// Addresses, and where their text begins.
    links: Vec<(String, usize)>,
}

/// A place in both forms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    text: usize,
    /// The HTML's length, and its state.
    html: (usize, State),
}

impl Position {
    /// A place in a document that is text alone.
    pub fn at(text: usize) -> Self {
        Self { text, html: (0, State::default()) }
    }

    pub fn len_of_text(self) -> usize {
        self.text
    }
}

impl Simple {
    pub fn new() -> Self {
        Self { html: Some(Html::new()), ..Self::without_html() }
    }

    pub fn without_html() -> Self {
        Self { text: String::new(), html: None, words_end: 0, links: Vec::new() }
    }

    pub fn has_html(&self) -> bool {
        self.html.is_some()
    }

    pub fn len(&self) -> usize {
        self.text.len() + self.html.as_ref().map_or(0, |html| html.out.len())
    }

    pub fn len_of_text(&self) -> usize {
        self.text.len()
    }

    /// Whether the text has a word from a place on.
    pub fn has_words_from(&self, place: usize) -> bool {
        self.words_end > place
    }

    pub fn place(&self) -> Position {
        let html = self.html.as_ref().map(|html| (html.out.len(), html.state));
        Position { text: self.text.len(), html: html.unwrap_or_default() }
    }

    /// Removes what was written after this place. Links keep their numbers.
    pub fn back_to(&mut self, place: Position) {
        take_back(&mut self.text, place.text);
        self.words_end = self.words_end.min(place.text);
        if let Some(html) = &mut self.html {
            take_back(&mut html.out, place.html.0);
            html.state = place.html.1;
        }
    }

    pub fn text(&mut self, text: &str, style: Style, link: u32) {
        self.text.push_str(text);
        if !text.trim().is_empty() {
            self.words_end = self.text.len();
        }
        if let Some(html) = &mut self.html {
            html.text(text, style, link, &self.links);
        }
    }

    /// A picture, as an element of HTML.
    pub fn picture(&mut self, element: &str, link: u32) {
        if let Some(html) = &mut self.html {
            html.begin_inline(0, link, &self.links);
            html.out.push_str(element);
        }
    }

    pub fn line(&mut self) {
        self.text.push_str("\r\n");
        if let Some(html) = &mut self.html {
            html.line();
        }
    }

    pub fn paragraph(&mut self) {
        self.text.push_str("\r\n");
        if let Some(html) = &mut self.html {
            html.paragraph();
        }
    }

    /// Ends the paragraph, if anything is on its last line.
    pub fn end_paragraph(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.paragraph();
        }
    }

    /// A link, whose number is the answer.
    pub fn begin_link(&mut self, url: &str) -> u32 {
        self.links.push((url.to_owned(), self.text.len()));
        u32::try_from(self.links.len()).unwrap_or_default()
    }

    /// The text of a link is complete. Its address follows unless the text has it.
    pub fn end_link(&mut self, link: u32) {
        let Some((url, from)) = link_at(&self.links, link) else { return };
        let plain = url.strip_prefix("mailto:").unwrap_or(url);
        // Only the beginning is looked at: links nest, and each would read all of it.
        // Text that was taken back leaves a link without any.
        let said = self.text.get(*from..).unwrap_or_default();
        let said = said.in_bounds(..said.floor_char_boundary(4096));
        if !said.trim().is_empty() && !said.contains(plain) {
            self.text.push_str(" <");
            self.text.push_str(url);
            self.text.push('>');
        }
    }

    pub fn finish(self) -> (String, String) {
        (self.text, self.html.map(Html::finish).unwrap_or_default())
    }
}

fn link_at(links: &[(String, usize)], link: u32) -> Option<&(String, usize)> {
    links.get(usize::try_from(link).ok()?.checked_sub(1)?)
}

struct Html {
    out: String,
    state: State,
}

/// The elements that are open.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    is_in_paragraph: bool,
    style: Style,
    link: u32,
}

impl Html {
    fn new() -> Self {
        let out = "<!DOCTYPE html>\r\n<html><body>\r\n".to_owned();
        Self { out, state: State::default() }
    }

    fn text(&mut self, text: &str, style: Style, link: u32, links: &[(String, usize)]) {
        if text.is_empty() {
            return;
        }
        self.begin_inline(style, link, links);
        escape_into(text, &mut self.out);
    }

    /// Begins text in a paragraph, in this style and link.
    fn begin_inline(&mut self, style: Style, link: u32, links: &[(String, usize)]) {
        self.open_paragraph();
        if (style, link) != (self.state.style, self.state.link) {
            self.close_elements();
            self.open_elements(style, link, links);
        }
    }

    fn open_paragraph(&mut self) {
        if !self.state.is_in_paragraph {
            self.out.push_str("<p>");
            self.state.is_in_paragraph = true;
        }
    }

    fn line(&mut self) {
        self.open_paragraph();
        self.out.push_str("<br>\r\n");
    }

    fn paragraph(&mut self) {
        if !self.state.is_in_paragraph {
            self.out.push_str("<p>&nbsp;");
        }
        self.close_elements();
        self.out.push_str("</p>\r\n");
        self.state.is_in_paragraph = false;
    }

    fn open_elements(&mut self, style: Style, link: u32, links: &[(String, usize)]) {
        if let Some((url, _)) = link_at(links, link) {
            self.out.push_str("<a href=\"");
            escape_into(url, &mut self.out);
            self.out.push_str("\">");
        }
        for (bit, name) in ELEMENTS {
            if style & bit != 0 {
                self.out.push('<');
                self.out.push_str(name);
                self.out.push('>');
            }
        }
        (self.state.style, self.state.link) = (style, link);
    }

    fn close_elements(&mut self) {
        for (bit, name) in ELEMENTS.iter().rev() {
            if self.state.style & bit != 0 {
                self.out.push_str("</");
                self.out.push_str(name);
                self.out.push('>');
            }
        }
        if self.state.link != 0 {
            self.out.push_str("</a>");
        }
        (self.state.style, self.state.link) = (0, 0);
    }

    fn finish(mut self) -> String {
        if self.state.is_in_paragraph {
            self.paragraph();
        }
        self.out.push_str("</body></html>\r\n");
        self.out
    }
}

/// Shortens text to an earlier length.
pub(super) fn take_back(text: &mut String, len: usize) {
    text.truncate(text.floor_char_boundary(len));
}

/// Text as it is in HTML. A tab becomes four spaces that do not collapse.
pub(super) fn escape_into(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&nbsp;&nbsp;&nbsp; "),
            '\u{A0}' => out.push_str("&nbsp;"),
            character => out.push(character),
        }
    }
}
