//! Bytes of a script to tokens. RFC 5228 §8.1.
//!
//! A script is UTF-8. Lines end at CRLF or LF: files on disk have the latter. In strings, a line
//! end stays as it is written, but is always CRLF in the value (RFC 5228 §2.1).

use posthaste_mime_summary::InBounds;

use crate::error::{CompileError, Position};

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name, in lower case.
    Word(String),
    /// A name after a colon, in lower case.
    Tag(String),
    Number(u64),
    Text(String),
    /// One of `{ } ( ) [ ] ; ,`.
    Sign(char),
    End,
}

impl Token {
    /// The token in words, for an error.
    pub(crate) fn described(&self) -> String {
        match self {
            Token::Word(word) => format!("\"{word}\""),
            Token::Tag(tag) => format!("\":{tag}\""),
            Token::Number(number) => format!("number {number}"),
            Token::Text(_) => "a string".into(),
            Token::Sign(sign) => format!("\"{sign}\""),
            Token::End => "the end of the script".into(),
        }
    }
}

/// Reads tokens one by one.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'s> {
    rest: &'s str,
    place: Position,
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(source: &'s str) -> Self {
        // A byte order mark is no part of the script: editors on Windows write one.
        let rest = source.strip_prefix('\u{feff}').unwrap_or(source);
        Lexer { rest, place: Position { line: 1, column: 1 } }
    }

    /// The next token and where it begins.
    pub(crate) fn next_token(&mut self) -> Result<(Position, Token), CompileError> {
        self.skip_white_space()?;
        let place = self.place;
        let Some(first) = self.rest.chars().next() else { return Ok((place, Token::End)) };
        let token = match first {
            '{' | '}' | '(' | ')' | '[' | ']' | ';' | ',' => {
                self.advance(1);
                Token::Sign(first)
            }
            '"' => Token::Text(self.quoted()?),
            ':' => {
                self.advance(1);
                match self.word() {
                    Some(word) => Token::Tag(word.to_ascii_lowercase()),
                    None => {
                        return Err(CompileError::new(
                            place,
                            "a colon begins a tag: write a name after it, as in \":is\"",
                        ));
                    }
                }
            }
            '0'..='9' => self.number()?,
            _ => match self.word() {
                Some(word) if word.eq_ignore_ascii_case("text") && self.rest.starts_with(':') => {
                    Token::Text(self.multi_line(place)?)
                }
                Some(word) => Token::Word(word.to_ascii_lowercase()),
                None => {
                    let message = format!("{first:?} has no meaning here; strings are in double quotes");
                    return Err(CompileError::new(place, message));
                }
            },
        };
        Ok((place, token))
    }

    /// Moves past `len` bytes and counts their lines and columns.
    fn advance(&mut self, len: usize) {
        let (done, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        for c in done.chars() {
            if c == '\n' {
                self.place = Position { line: self.place.line.saturating_add(1), column: 1 };
            } else {
                self.place.column = self.place.column.saturating_add(1);
            }
        }
        self.rest = rest;
    }

    fn skip_white_space(&mut self) -> Result<(), CompileError> {
        loop {
            let white = self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.advance(white);
            if self.rest.starts_with('#') {
                self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.get(2..).and_then(|rest| rest.find("*/")) else {
                    return Err(CompileError::new(
                        self.place,
                        "the comment never ends: close it with \"*/\"",
                    ));
                };
                self.advance(end + 4);
            } else if white == 0 {
                return Ok(());
            }
        }
    }

    /// identifier = (ALPHA / "_") *(ALPHA / DIGIT / "_")
    fn word(&mut self) -> Option<&'s str> {
        let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = self.rest.find(|c| !is_inside(c)).unwrap_or(self.rest.len());
        let word = self.rest.get(..len)?;
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.advance(len);
        Some(word)
    }

    /// number = 1*DIGIT [ "K" / "M" / "G" ]. RFC 5228 §2.4.1.
    fn number(&mut self) -> Result<Token, CompileError> {
        let place = self.place;
        let len = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let digits = self.rest.in_bounds(..len);
        let too_large = || CompileError::new(place, "the number is too large: at most 64 bits are counted");
        let value: u64 = digits.parse().map_err(|_| too_large())?;
        self.advance(len);
        let suffix = self.word().unwrap_or_default();
        let shift = match suffix {
            "" => 0,
            "k" | "K" => 10,
            "m" | "M" => 20,
            "g" | "G" => 30,
            other => {
                let message = format!("{other:?} is not a unit: a number ends with K, M, G or nothing");
                return Err(CompileError::new(place, message));
            }
        };
        value.checked_mul(1 << shift).map(Token::Number).ok_or_else(too_large)
    }

    /// RFC 5228 §2.4.2: a backslash before a character means that character.
    fn quoted(&mut self) -> Result<String, CompileError> {
        let place = self.place;
        let mut value = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        let mut end = None;
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = Some(at + 1);
                    break;
                }
                '\\' => value.extend(chars.next().map(|(_, c)| c)),
                _ => value.push(c),
            }
        }
        // RFC 5228 §8.1: neither by itself nor after a backslash.
        if value.contains('\0') {
            return Err(CompileError::new(place, "the string has a NUL, which no string may have"));
        }
        let Some(end) = end else {
            return Err(CompileError::new(place, "the string never ends: close it with a double quote"));
        };
        self.advance(end);
        Ok(line_ends(value))
    }

    /// `text:` to a line with a single dot. RFC 5228 §2.4.2.
    fn multi_line(&mut self, place: Position) -> Result<String, CompileError> {
        self.advance(1);
        let first = self.rest.find('\n').map_or(self.rest.len(), |at| at + 1);
        let head = self.rest.in_bounds(..first).trim_matches([' ', '\t', '\r', '\n']);
        if !head.is_empty() && !head.starts_with('#') {
            return Err(CompileError::new(
                self.place,
                "after \"text:\" the line ends: begin the text on the next line",
            ));
        }
        let mut len = first;
        let mut value = String::new();
        while let Some(rest) = self.rest.get(len..).filter(|rest| !rest.is_empty()) {
            let line_len = rest.find('\n').map_or(rest.len(), |at| at + 1);
            let line = rest.in_bounds(..line_len);
            len += line_len;
            let bare = line.strip_suffix('\n').unwrap_or(line);
            let bare = bare.strip_suffix('\r').unwrap_or(bare);
            if bare == "." {
                self.advance(len);
                return match value.contains('\0') {
                    true => Err(CompileError::new(place, "the string has a NUL, which no string may have")),
                    false => Ok(line_ends(value)),
                };
            }
            // Dot-stuffing as in SMTP; one dot without another is let through.
            value.push_str(if bare.starts_with("..") { line.in_bounds(1..) } else { line });
        }
        Err(CompileError::new(place, "the text never ends: close it with a line that has only a dot"))
    }
}

/// Every line end as CRLF.
fn line_ends(value: String) -> String {
    if !value.contains('\n') {
        return value;
    }
    value.replace("\r\n", "\n").replace('\n', "\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> Result<Vec<Token>, CompileError> {
        let mut lexer = Lexer::new(source);
        let mut all = Vec::new();
        loop {
            match lexer.next_token()?.1 {
                Token::End => return Ok(all),
                token => all.push(token),
            }
        }
    }

    #[test]
    fn tokens_of_every_kind() {
        let text = |t: &str| Token::Text(t.into());
        for (source, expected) in [
            ("", vec![]),
            ("# c\nKEEP;/* x\n*/", vec![Token::Word("keep".into()), Token::Sign(';')]),
            (
                ":Is 10K 2m 0",
                vec![Token::Tag("is".into()), Token::Number(10240), Token::Number(2 << 20), Token::Number(0)],
            ),
            (r#""a\"b\\c\d" "#, vec![text("a\"b\\cd")]),
            ("\"a\nb\"", vec![text("a\r\nb")]),
            ("text: # c\r\nline\n..dot\n.x\n.\n;", vec![text("line\r\n.dot\r\n.x\r\n"), Token::Sign(';')]),
            ("text:\n.\n", vec![text("")]),
        ] {
            assert_eq!(tokens(source).unwrap(), expected, "{source:?}");
        }
    }

    #[test]
    fn faults_say_where_and_what_to_write() {
        for (source, line, column, words) in [
            ("\n  \"abc", 2, 3, "never ends"),
            ("keep /* x", 1, 6, "*/"),
            ("10x", 1, 1, "not a unit"),
            ("99999999999999999999", 1, 1, "too large"),
            ("99999999999999999G", 1, 1, "too large"),
            ("ü", 1, 1, "no meaning"),
            (": x", 1, 1, "a name after it"),
            ("text: x\n.\n", 1, 6, "next line"),
            ("text:\nabc", 1, 1, "only a dot"),
            ("\"a\0\"", 1, 1, "NUL"),
        ] {
            let error = tokens(source).unwrap_err();
            assert_eq!((error.place.line, error.place.column), (line, column), "{source:?}: {error}");
            assert!(error.message.contains(words), "{source:?}: {error}");
        }
    }
}
