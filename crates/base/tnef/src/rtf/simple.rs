//! Text and HTML made from RTF that was written as RTF.

use posthaste_mime_summary::InBounds;

use super::style::{BOLD, ITALIC, STRUCK, Style, UNDERLINED};

/// Styles and their elements, outermost first.
const ELEMENTS: [(Style, &str); 4] = [(BOLD, "b"), (ITALIC, "i"), (UNDERLINED, "u"), (STRUCK, "s")];

/// Both forms, as they are written.
pub(super) struct Simple {
    text: String,
    html: Option<Html>,
    /// Addresses, and where their text begins.
    links: Vec<(String, usize)>,
}

impl Simple {
    pub fn new() -> Self {
        Self { html: Some(Html::new()), ..Self::without_html() }
    }

    pub fn without_html() -> Self {
        Self { text: String::new(), html: None, links: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.text.len() + self.html.as_ref().map_or(0, |html| html.out.len())
    }

    pub fn text(&mut self, text: &str, style: Style, link: u32) {
        self.text.push_str(text);
        if let Some(html) = &mut self.html {
            html.text(text, style, link, &self.links);
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
        let said = self.text.in_bounds(*from..);
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
    is_in_paragraph: bool,
    style: Style,
    link: u32,
}

impl Html {
    fn new() -> Self {
        let out = "<!DOCTYPE html>\r\n<html><body>\r\n".to_owned();
        Self { out, is_in_paragraph: false, style: 0, link: 0 }
    }

    fn text(&mut self, text: &str, style: Style, link: u32, links: &[(String, usize)]) {
        if text.is_empty() {
            return;
        }
        self.open_paragraph();
        if (style, link) != (self.style, self.link) {
            self.close_elements();
            self.open_elements(style, link, links);
        }
        escape_into(text, &mut self.out);
    }

    fn open_paragraph(&mut self) {
        if !self.is_in_paragraph {
            self.out.push_str("<p>");
            self.is_in_paragraph = true;
        }
    }

    fn line(&mut self) {
        self.open_paragraph();
        self.out.push_str("<br>\r\n");
    }

    fn paragraph(&mut self) {
        if !self.is_in_paragraph {
            self.out.push_str("<p>&nbsp;");
        }
        self.close_elements();
        self.out.push_str("</p>\r\n");
        self.is_in_paragraph = false;
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
        (self.style, self.link) = (style, link);
    }

    fn close_elements(&mut self) {
        for (bit, name) in ELEMENTS.iter().rev() {
            if self.style & bit != 0 {
                self.out.push_str("</");
                self.out.push_str(name);
                self.out.push('>');
            }
        }
        if self.link != 0 {
            self.out.push_str("</a>");
        }
        (self.style, self.link) = (0, 0);
    }

    fn finish(mut self) -> String {
        if self.is_in_paragraph {
            self.paragraph();
        }
        self.out.push_str("</body></html>\r\n");
        self.out
    }
}

/// Text as it stands in HTML. A tab becomes four spaces that do not collapse.
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
