//! Tokens to commands. RFC 5228 §8.2.
//!
//! The parser knows no command: `foo :bar 1 "x" { }` is a command like any other. It reports the
//! first fault only, because the text after a fault of syntax can only be guessed.

use crate::error::{CompileError, Position};
use crate::lexer::{Lexer, Token};
use crate::limits::Limits;
use crate::syntax::{Argument, Command, Test, Value};

/// Parses a whole script.
pub(crate) fn parse(source: &str, limits: &Limits) -> Result<Vec<Command>, CompileError> {
    let mut lexer = Lexer::new(source);
    let (place, token) = lexer.next_token()?;
    let mut parser = Parser { lexer, place, token, depth: 0, depth_max: limits.nesting_max };
    let commands = parser.commands()?;
    match parser.token {
        Token::End => Ok(commands),
        _ => Err(CompileError::new(parser.place, "there is a \"}\" too many: no block is open here")),
    }
}

struct Parser<'s> {
    lexer: Lexer<'s>,
    place: Position,
    token: Token,
    depth: usize,
    depth_max: usize,
}

impl Parser<'_> {
    /// Takes the token and reads the next one.
    fn take(&mut self) -> Result<Token, CompileError> {
        let (place, token) = self.lexer.next_token()?;
        self.place = place;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn is_sign(&self, sign: char) -> bool {
        self.token == Token::Sign(sign)
    }

    /// RFC 5228 §2.10.5 requires 15 levels at least.
    fn deeper(&mut self) -> Result<(), CompileError> {
        self.depth += 1;
        if self.depth > self.depth_max {
            let message =
                format!("blocks and tests nest deeper than {}: make the script flatter", self.depth_max);
            return Err(CompileError::new(self.place, message));
        }
        Ok(())
    }

    /// Commands up to a closing brace or the end.
    fn commands(&mut self) -> Result<Vec<Command>, CompileError> {
        let mut commands = Vec::new();
        loop {
            match &self.token {
                Token::End | Token::Sign('}') => return Ok(commands),
                Token::Word(_) => commands.push(self.command()?),
                other => {
                    let message = format!("expected a command, found {}", other.described());
                    return Err(CompileError::new(self.place, message));
                }
            }
        }
    }

    fn name(&mut self) -> Result<String, CompileError> {
        match self.take()? {
            Token::Word(name) => Ok(name),
            _ => Ok(String::new()),
        }
    }

    fn command(&mut self) -> Result<Command, CompileError> {
        let place = self.place;
        let name = self.name()?;
        let arguments = self.arguments()?;
        let (tests, _) = self.tests()?;
        let block = match &self.token {
            Token::Sign(';') => {
                self.take()?;
                None
            }
            Token::Sign('{') => Some(self.block()?),
            other => {
                let message =
                    format!("expected \";\" or a block after \"{name}\", found {}", other.described());
                return Err(CompileError::new(self.place, message));
            }
        };
        Ok(Command { place, name, arguments, tests, block })
    }

    fn block(&mut self) -> Result<Vec<Command>, CompileError> {
        let opened = self.place;
        self.deeper()?;
        self.take()?;
        let commands = self.commands()?;
        if !self.is_sign('}') {
            return Err(CompileError::new(
                opened,
                "the block that begins here never ends: close it with \"}\"",
            ));
        }
        self.take()?;
        self.depth -= 1;
        Ok(commands)
    }

    fn arguments(&mut self) -> Result<Vec<Argument>, CompileError> {
        let mut arguments = Vec::new();
        loop {
            let place = self.place;
            let value = match &self.token {
                Token::Tag(_) | Token::Number(_) | Token::Text(_) => match self.take()? {
                    Token::Tag(tag) => Value::Tag(tag),
                    Token::Number(number) => Value::Number(number),
                    Token::Text(text) => Value::String(text),
                    _ => return Ok(arguments),
                },
                Token::Sign('[') => Value::List(self.list()?),
                _ => return Ok(arguments),
            };
            arguments.push(Argument { place, value });
        }
    }

    fn list(&mut self) -> Result<Vec<(Position, String)>, CompileError> {
        let mut strings = Vec::new();
        self.take()?;
        // RFC 5228 §8.2 requires a string at least, but its §2.4.2.1 speaks of empty lists: they
        // match nothing.
        if self.is_sign(']') {
            self.take()?;
            return Ok(strings);
        }
        loop {
            let place = self.place;
            match self.take()? {
                Token::Text(text) => strings.push((place, text)),
                other => {
                    let message = format!("expected a string in the list, found {}", other.described());
                    return Err(CompileError::new(place, message));
                }
            }
            let place = self.place;
            match self.take()? {
                Token::Sign(',') => {}
                Token::Sign(']') => return Ok(strings),
                other => {
                    let message = format!("expected \",\" or \"]\" in the list, found {}", other.described());
                    return Err(CompileError::new(place, message));
                }
            }
        }
    }

    /// A test, a list of tests in parentheses, or none; and whether there were parentheses.
    fn tests(&mut self) -> Result<(Vec<Test>, bool), CompileError> {
        match &self.token {
            Token::Word(_) => Ok((vec![self.test()?], false)),
            Token::Sign('(') => {
                self.take()?;
                let mut tests = Vec::new();
                loop {
                    if !matches!(self.token, Token::Word(_)) {
                        let message = format!("expected a test, found {}", self.token.described());
                        return Err(CompileError::new(self.place, message));
                    }
                    tests.push(self.test()?);
                    let place = self.place;
                    match self.take()? {
                        Token::Sign(',') => {}
                        Token::Sign(')') => return Ok((tests, true)),
                        other => {
                            let message =
                                format!("expected \",\" or \")\" after a test, found {}", other.described());
                            return Err(CompileError::new(place, message));
                        }
                    }
                }
            }
            _ => Ok((Vec::new(), false)),
        }
    }

    fn test(&mut self) -> Result<Test, CompileError> {
        let place = self.place;
        self.deeper()?;
        let name = self.name()?;
        let arguments = self.arguments()?;
        let (tests, is_list) = self.tests()?;
        self.depth -= 1;
        Ok(Test { place, name, arguments, tests, is_list })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_arguments_tests_and_a_block() {
        let script = "if anyof (not header :is \"a\" [\"b\", \"c\"], size :over 1K) { stop; } keep;";
        let commands = parse(script, &Limits::default()).unwrap();
        assert_eq!(commands.len(), 2);
        let anyof = &commands[0].tests[0];
        assert_eq!((anyof.name.as_str(), anyof.tests.len(), anyof.is_list), ("anyof", 2, true));
        assert_eq!(anyof.tests[0].tests[0].arguments.len(), 3);
        assert_eq!(anyof.tests[1].arguments[1].value, Value::Number(1024));
        assert_eq!(commands[0].block.as_ref().unwrap()[0].name, "stop");
        assert_eq!(commands[1].place, Position { line: 1, column: 67 });
    }

    #[test]
    fn faults_of_syntax() {
        for (script, column, words) in [
            ("keep", 5, "expected \";\""),
            ("keep; }", 7, "too many"),
            ("if true { keep;", 9, "never ends"),
            ("\"x\";", 1, "expected a command"),
            ("a [\"x\" \"y\"];", 8, "in the list"),
            ("a [1];", 4, "a string in the list"),
            ("if anyof (true;", 15, "after a test"),
            ("if anyof ();", 11, "expected a test"),
        ] {
            let error = parse(script, &Limits::default()).unwrap_err();
            assert_eq!(error.place, Position { line: 1, column }, "{script}: {error}");
            assert!(error.message.contains(words), "{script}: {error}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let limits = Limits::default();
        let nested = |n: usize| format!("{}keep;{}", "if true {".repeat(n), "}".repeat(n));
        assert!(parse(&nested(limits.nesting_max), &limits).is_ok());
        assert!(parse(&nested(limits.nesting_max + 1), &limits).is_err());
        let tests = format!("if {} true {{}}", "not ".repeat(100_000));
        assert!(parse(&tests, &limits).unwrap_err().message.contains("nest deeper"));
    }
}
