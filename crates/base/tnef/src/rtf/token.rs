//! RTF bytes to tokens: RTF 1.9.1, Conventions of an RTF Reader.

/// A token. Line ends between tokens mean nothing and are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'r> {
    /// `{`
    Open,
    /// `}`
    Close,
    /// `\word` with its number.
    Word(&'r [u8], Option<i32>),
    /// A backslash and what is no letter.
    Symbol(u8),
    /// `\'hh`: a byte of text.
    Hex(u8),
    /// Bytes of text: not empty, without braces, backslashes and line ends.
    Text(&'r [u8]),
}

/// Tokens of RTF, one after the other.
pub(super) struct Tokens<'r> {
    rest: &'r [u8],
    /// As [`Tokens::cut`] returns it.
    cut: Option<usize>,
    /// As [`Tokens::take_data`] returns it.
    data: Option<&'r [u8]>,
}

impl<'r> Tokens<'r> {
    pub fn new(rtf: &'r [u8]) -> Self {
        Self { rest: rtf, cut: None, data: None }
    }

    /// The number of bytes that were left at a `\bin` that claims more of them. It was the last
    /// token.
    pub fn cut(&self) -> Option<usize> {
        self.cut
    }

    /// The data of the last token, if that was a `\bin`.
    pub fn take_data(&mut self) -> Option<&'r [u8]> {
        self.data.take()
    }

    fn split(&mut self, at: usize) -> &'r [u8] {
        let (before, after) = self.rest.split_at(at.min(self.rest.len()));
        self.rest = after;
        before
    }

    /// The token after a backslash.
    fn escaped(&mut self) -> Option<Token<'r>> {
        let first = *self.rest.first()?;
        if first.is_ascii_alphabetic() {
            return Some(self.word());
        }
        self.split(1);
        match first {
            b'\'' => {
                let digits = self.split(2);
                let digits = std::str::from_utf8(digits).ok();
                Some(match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    Some(byte) => Token::Hex(byte),
                    None => Token::Text(b"?"),
                })
            }
            // A line end with a backslash before it is a paragraph's end.
            b'\r' | b'\n' => Some(Token::Word(b"par", None)),
            symbol => Some(Token::Symbol(symbol)),
        }
    }

    fn word(&mut self) -> Token<'r> {
        let len = self.rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let name = self.split(len);
        let sign = usize::from(self.rest.first() == Some(&b'-'));
        let digits = self.rest.iter().skip(sign).take_while(|b| b.is_ascii_digit()).count();
        let digits = if digits == 0 { None } else { Some(self.split(sign + digits)) };
        let fits = digits.map(|text| std::str::from_utf8(text).ok()?.parse().ok());
        // A number that does not fit means nothing.
        let number = fits.map(|number| number.unwrap_or(0));
        if self.rest.first() == Some(&b' ') {
            self.split(1);
        }
        if name == b"bin" {
            // One that does not fit is more than there is.
            let len = match fits {
                Some(None) if sign == 0 => usize::MAX,
                _ => number.and_then(|n: i32| usize::try_from(n).ok()).unwrap_or_default(),
            };
            self.cut = (len > self.rest.len()).then_some(self.rest.len());
            self.data = Some(self.split(len));
        }
        Token::Word(name, number)
    }
}

impl<'r> Iterator for Tokens<'r> {
    type Item = Token<'r>;

    fn next(&mut self) -> Option<Token<'r>> {
        loop {
            match *self.rest.first()? {
                b'{' => {
                    self.split(1);
                    return Some(Token::Open);
                }
                b'}' => {
                    self.split(1);
                    return Some(Token::Close);
                }
                b'\\' => {
                    self.split(1);
                    return self.escaped();
                }
                b'\r' | b'\n' | 0 => {
                    self.split(1);
                }
                _ => {
                    let ends = |b: &u8| matches!(b, b'{' | b'}' | b'\\' | b'\r' | b'\n' | 0);
                    let len = self.rest.iter().position(ends).unwrap_or(self.rest.len());
                    return Some(Token::Text(self.split(len)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let rtf = b"{\\rtf1\\b-12 x\r\ny\\'e4\\'zz\\{\\~\\\n\\bin3 }}}\\f99999999999}\\";
        let tokens: Vec<_> = Tokens::new(rtf).collect();
        assert_eq!(
            tokens,
            [
                Token::Open,
                Token::Word(b"rtf", Some(1)),
                Token::Word(b"b", Some(-12)),
                Token::Text(b"x"),
                Token::Text(b"y"),
                Token::Hex(0xE4),
                Token::Text(b"?"),
                Token::Symbol(b'{'),
                Token::Symbol(b'~'),
                Token::Word(b"par", None),
                Token::Word(b"bin", Some(3)),
                Token::Word(b"f", Some(0)),
                Token::Close,
            ]
        );
    }

    #[test]
    fn data_that_claims_more_than_there_is() {
        let mut tokens = Tokens::new(b"{\\bin4 1234}\\bin4 123");
        assert_eq!(tokens.by_ref().count(), 4);
        assert_eq!(tokens.cut(), Some(3));
        let mut tokens = Tokens::new(b"{\\bin4 1234}\\bin4 1234");
        assert_eq!(tokens.by_ref().count(), 4);
        assert_eq!(tokens.cut(), None);
        // Numbers that no length has.
        for number in ["2147483648", "4294967300", "99999999999999999999999"] {
            let rtf = format!("{{\\bin{number} 1234");
            let mut tokens = Tokens::new(rtf.as_bytes());
            assert_eq!((tokens.by_ref().count(), tokens.cut()), (2, Some(4)), "{number}");
        }
        let mut tokens = Tokens::new(b"\\bin-4294967300 1");
        assert_eq!((tokens.by_ref().count(), tokens.cut()), (2, None));
    }
}
