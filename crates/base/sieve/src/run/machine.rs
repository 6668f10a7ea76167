//! The state of a run: the message, variables, flags, and what to do at the end.

use std::borrow::Cow;
use std::collections::HashMap;

use posthaste_mime_summary::PartIndex;

use crate::context::Context;
use crate::limits::Limits;
use crate::message::Message;
use crate::meter::Meter;
use crate::run::fault::Fault;
use crate::run::flags;
use crate::run::results::Results;
use crate::text::{Piece, Text, Variable};

/// Steps of a question to the world around a message for which it may read from a disk.
const READ_STEPS: u64 = 64;

/// Parts of a step that it takes to find a variable, also an empty one.
const LOOK_UP_WORK: u64 = 8;

/// Bytes of the values of all variables together, also in the scripts that include this one: as
/// many as 256 variables can have.
const VARIABLES_BYTES_MAX: usize = 2 << 20;

/// Bytes of the strings of a list that an action or a test has as a whole: as many as a script has.
const LIST_BYTES_MAX: usize = 1 << 20;

/// The state of a run.
pub(crate) struct Machine<'r> {
    pub(crate) context: &'r dyn Context,
    pub(crate) limits: &'r Limits,
    pub(crate) message: Message<'r>,
    /// Variables of the script that runs now.
    pub(crate) locals: Vec<String>,
    pub(crate) globals: HashMap<Box<str>, String>,
    /// Bytes of their values, and of those of the scripts that include this one.
    pub(crate) variables_bytes: usize,
    /// The match variables of the last match: the whole first (RFC 5229 §3.2).
    pub(crate) matched: Vec<String>,
    /// Whether matches fill `matched`.
    pub(crate) has_variables: bool,
    /// The internal variable of imap4flags (RFC 5232 §2).
    pub(crate) flags: Vec<String>,
    /// The part at which the innermost loop is.
    pub(crate) part: Option<PartIndex>,
    pub(crate) results: Results,
    pub(crate) meter: Meter<'r>,
}

impl<'r> Machine<'r> {
    pub(crate) fn new(context: &'r dyn Context, limits: &'r Limits, message: &'r [u8]) -> Self {
        Machine {
            context,
            limits,
            message: Message::new(message),
            locals: Vec::new(),
            globals: HashMap::new(),
            variables_bytes: 0,
            matched: Vec::new(),
            has_variables: false,
            flags: context.flags().to_vec(),
            part: None,
            results: Results::new(limits),
            meter: Meter::new(limits.steps_max, context.stop()),
        }
    }

    /// Counts steps; a fault when there are too many.
    pub(crate) fn step(&self, count: u64) -> Result<(), Fault> {
        Ok(self.meter.step(count)?)
    }

    /// The world around the message, for a question that may read from a disk.
    pub(crate) fn read_from(&self) -> Result<&'r dyn Context, Fault> {
        self.step(READ_STEPS)?;
        Ok(self.context)
    }

    /// Counts work in parts of a step.
    pub(crate) fn work(&self, parts: u64) -> Result<(), Fault> {
        Ok(self.meter.work(parts)?)
    }

    /// Counts a look at this many bytes.
    pub(crate) fn step_bytes(&self, bytes: u64) -> Result<(), Fault> {
        Ok(self.meter.step_bytes(bytes)?)
    }

    /// A string with its variables filled in.
    pub(crate) fn text<'t>(&self, text: &'t Text) -> Result<Cow<'t, str>, Fault> {
        let pieces = match text {
            Text::Constant(text) => {
                // It may be as long as the script, and its reader looks at all of it.
                self.work(text.len() as u64)?;
                return Ok(Cow::Borrowed(text));
            }
            Text::Pieces(pieces) => pieces,
        };
        let mut made = String::new();
        for piece in pieces {
            self.work(LOOK_UP_WORK)?;
            made.push_str(match piece {
                Piece::Literal(literal) => literal,
                Piece::Variable(variable) => self.variable(variable),
                Piece::Match(number) => self.matched.get(*number).map_or("", String::as_str),
            });
            if made.len() > self.limits.string_bytes_max {
                let max = self.limits.string_bytes_max;
                return Err(Fault(format!("a string with its variables is longer than {max} bytes")));
            }
        }
        self.step_bytes(made.len() as u64)?;
        Ok(Cow::Owned(made))
    }

    pub(crate) fn texts(&self, texts: &[Text]) -> Result<Vec<String>, Fault> {
        self.step(texts.len() as u64)?;
        let (mut made, mut bytes) = (Vec::with_capacity(texts.len()), 0);
        for text in texts {
            let text = self.text(text)?.into_owned();
            bytes += text.len();
            if bytes > LIST_BYTES_MAX {
                return Err(Fault(format!(
                    "the strings of a list are longer than {LIST_BYTES_MAX} bytes together"
                )));
            }
            made.push(text);
        }
        Ok(made)
    }

    pub(crate) fn optional(&self, text: Option<&Text>) -> Result<Option<String>, Fault> {
        text.map(|text| self.text(text).map(Cow::into_owned)).transpose()
    }

    /// Adds the flags of a string to a list.
    pub(crate) fn add_flags(&self, list: &mut Vec<String>, text: &str) -> Result<(), Fault> {
        self.work(LOOK_UP_WORK.saturating_add(flags::work(list, text)))?;
        flags::add(list, text);
        Ok(())
    }

    /// The first value of a field as text. It may have to be decoded, and a field may have 1 MiB.
    pub(crate) fn text_of(&self, name: &str) -> Result<Option<Cow<'_, str>>, Fault> {
        self.step(1 + self.message.fields_len() as u64 / 16)?;
        let Some(field) = self.message.field(name) else { return Ok(None) };
        self.step_bytes(field.raw_value().len() as u64)?;
        Ok(Some(field.value()))
    }

    /// The value of a variable; empty if it was never set (RFC 5229 §3).
    pub(crate) fn variable(&self, variable: &Variable) -> &str {
        match variable {
            Variable::Local(number) => self.locals.get(usize::from(*number)).map_or("", String::as_str),
            Variable::Global(name) => self.globals.get(name).map_or("", String::as_str),
        }
    }

    /// Sets a variable. A value that is too long is cut (RFC 5229 §6).
    pub(crate) fn set(&mut self, variable: &Variable, mut value: String) -> Result<(), Fault> {
        let mut len = value.len().min(self.limits.variable_bytes_max);
        while !value.is_char_boundary(len) {
            len -= 1;
        }
        value.truncate(len);
        // The memory of the rest is not kept with it.
        value.shrink_to_fit();
        let others = self.variables_bytes.saturating_sub(self.variable(variable).len());
        if others + value.len() > VARIABLES_BYTES_MAX {
            return Err(Fault(format!(
                "the values of all variables are longer than {VARIABLES_BYTES_MAX} bytes together"
            )));
        }
        match variable {
            Variable::Local(number) => {
                if let Some(slot) = self.locals.get_mut(usize::from(*number)) {
                    self.variables_bytes = others + value.len();
                    *slot = value;
                }
            }
            Variable::Global(name) => {
                if self.globals.len() >= self.limits.variables_max && !self.globals.contains_key(name) {
                    return Err(Fault(format!(
                        "there are more than {} global variables",
                        self.limits.variables_max
                    )));
                }
                self.variables_bytes = others + value.len();
                self.globals.insert(name.clone(), value);
            }
        }
        Ok(())
    }
}
