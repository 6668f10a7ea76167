//! The state of a script while it is checked: extensions, variables, loops, and faults.

use std::collections::{BTreeSet, HashMap};

use crate::error::{CompileError, Position};
use crate::extension::{Extension, ExtensionSet};
use crate::limits::Limits;
use crate::text::{Piece, Reference, Text, Variable, decode_characters, is_identifier, split};

/// The state of one check.
pub(crate) struct Checker<'c> {
    pub(crate) limits: &'c Limits,
    /// The extensions that this server allows.
    pub(crate) allowed: ExtensionSet,
    /// The extensions that the script has requested.
    pub(crate) enabled: ExtensionSet,
    /// Extensions that it has requested and may not have: named once is enough.
    refused: BTreeSet<String>,
    pub(crate) errors: Vec<CompileError>,
    /// Regular expressions so far.
    regexes: usize,
    locals: HashMap<String, u16>,
    globals: BTreeSet<String>,
    /// The loops that are open: their names, if they have any.
    pub(crate) loops: Vec<Option<String>>,
}

impl<'c> Checker<'c> {
    pub(crate) fn new(limits: &'c Limits, allowed: ExtensionSet) -> Self {
        Checker {
            limits,
            allowed,
            enabled: ExtensionSet::EMPTY,
            refused: BTreeSet::new(),
            errors: Vec::new(),
            regexes: 0,
            locals: HashMap::new(),
            globals: BTreeSet::new(),
            loops: Vec::new(),
        }
    }

    pub(crate) fn error(&mut self, place: Position, message: impl Into<String>) {
        if self.errors.len() < self.limits.errors_max {
            self.errors.push(CompileError::new(place, message));
        }
    }

    /// Counts a regular expression; whether the script may have it.
    pub(crate) fn counts_regex(&mut self, place: Position) -> bool {
        self.regexes += 1;
        let most = self.limits.regexes_max;
        // Said once.
        if self.regexes == most + 1 {
            self.error(place, format!("there are more than {most} regular expressions: use fewer"));
        }
        self.regexes <= most
    }

    /// The number of regular expressions.
    pub(crate) fn regexes(&self) -> usize {
        self.regexes
    }

    /// The number of variables that a run needs.
    pub(crate) fn locals(&self) -> u16 {
        self.locals.len() as u16
    }

    pub(crate) fn has(&self, extension: Extension) -> bool {
        self.enabled.has(extension)
    }

    /// Demands an extension for `what`; a fault if the script did not `require` it.
    pub(crate) fn needs(&mut self, extension: Extension, place: Position, what: &str) {
        if !self.has(extension) && !self.refused.contains(extension.name()) {
            self.error(
                place,
                format!("{what} needs an extension: write require \"{extension}\"; at the beginning"),
            );
        }
    }

    /// One name of `require`.
    pub(crate) fn require(&mut self, place: Position, name: &str) {
        match Extension::named(name).filter(|extension| self.allowed.has(*extension)) {
            Some(extension) => self.enable(extension),
            None => {
                let near = Extension::ALL.iter().find(|known| known.name().eq_ignore_ascii_case(name));
                let remedy = match near.filter(|near| self.allowed.has(**near)) {
                    Some(near) => format!("write \"{near}\""),
                    None => "remove it, or test for it with ihave".into(),
                };
                self.error(place, format!("the extension \"{name}\" is not available here: {remedy}"));
                self.refused.insert(name.into());
            }
        }
    }

    /// Switches an extension on, with those that it contains.
    pub(crate) fn enable(&mut self, extension: Extension) {
        self.enabled.insert(extension);
        // RFC 6131 §2: `vacation-seconds` includes `vacation`.
        if extension == Extension::VacationSeconds {
            self.enabled.insert(Extension::Vacation);
        }
    }

    /// A string that may have variables.
    pub(crate) fn text(&mut self, place: Position, source: &str) -> Text {
        let source = self.constant(place, source);
        if !self.has(Extension::Variables) || !source.contains("${") {
            return Text::Constant(source.into());
        }
        let mut pieces = Vec::new();
        split(&source, |piece| match piece {
            Err("") => {}
            Err(literal) => match pieces.last_mut() {
                Some(Piece::Literal(before)) => *before = format!("{before}{literal}").into(),
                _ => pieces.push(Piece::Literal(literal.into())),
            },
            Ok(Reference::Match(number)) => pieces.push(Piece::Match(number)),
            Ok(Reference::Name(None, name)) => {
                let name = name.to_ascii_lowercase();
                // One that is set further down, in a loop, must have its number already.
                if !self.globals.contains(&name) {
                    self.declare_local(place, &name);
                }
                pieces.extend(self.known(&name).map(Piece::Variable));
            }
            Ok(Reference::Name(Some(namespace), name)) => {
                if namespace.eq_ignore_ascii_case("global")
                    && self.has(Extension::Include)
                    && is_identifier(name)
                {
                    pieces.push(Piece::Variable(Variable::Global(name.to_ascii_lowercase().into())));
                } else {
                    let message = format!(
                        "there is no variable ${{{namespace}.{name}}}: only ${{global.name}} has a prefix, and needs require \"include\""
                    );
                    self.error(place, message);
                }
            }
        });
        match pieces.as_mut_slice() {
            [] => Text::Constant("".into()),
            [Piece::Literal(only)] => Text::Constant(std::mem::take(only)),
            _ => Text::Pieces(pieces.into()),
        }
    }

    /// A string in which variables mean nothing, or are not looked at yet.
    pub(crate) fn constant(&mut self, place: Position, source: &str) -> String {
        if !self.has(Extension::EncodedCharacter) {
            return source.into();
        }
        match decode_characters(source, place) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.errors.push(error);
                String::new()
            }
        }
    }

    /// A variable that has its room.
    fn known(&self, name: &str) -> Option<Variable> {
        match self.globals.contains(name) {
            true => Some(Variable::Global(name.into())),
            false => self.locals.get(name).map(|number| Variable::Local(*number)),
        }
    }

    /// Makes room for a variable.
    fn declare_local(&mut self, place: Position, name: &str) {
        let count = self.locals.len();
        let name = name.to_ascii_lowercase();
        if self.locals.contains_key(&name) || !is_identifier(&name) {
            return;
        }
        if count >= self.limits.variables_max {
            let message = format!("there are more than {} variables: use fewer", self.limits.variables_max);
            return self.error(place, message);
        }
        self.locals.insert(name, count as u16);
    }

    /// The variable that a command sets.
    pub(crate) fn settable(&mut self, place: Position, name: &str) -> Option<Variable> {
        let lower = name.to_ascii_lowercase();
        if let Some(global) = lower.strip_prefix("global.")
            && self.has(Extension::Include)
            && is_identifier(global)
        {
            return Some(Variable::Global(global.into()));
        }
        if !is_identifier(&lower) {
            let message = format!(
                "\"{name}\" is not the name of a variable: use letters, digits and _, no digit first"
            );
            self.error(place, message);
            return None;
        }
        if !self.globals.contains(&lower) {
            self.declare_local(place, &lower);
        }
        self.known(&lower)
    }

    /// RFC 6609 §3.3: `global` makes a name global in this script.
    pub(crate) fn declare_global(&mut self, place: Position, name: &str) {
        let lower = name.to_ascii_lowercase();
        if !is_identifier(&lower) {
            let message = format!(
                "\"{name}\" is not the name of a variable: use letters, digits and _, no digit first"
            );
            return self.error(place, message);
        }
        self.globals.insert(lower);
    }
}
