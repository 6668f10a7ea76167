//! The arguments of one command or test, taken one by one. RFC 5228 §2.6.

use crate::check::checker::Checker;
use crate::compiled::Texts;
use crate::error::Position;
use crate::extension::Extension;
use crate::syntax::{Argument, Value};
use crate::text::Text;

/// Arguments of which some are taken already.
pub(crate) struct Arguments<'a> {
    pub(crate) place: Position,
    /// The command or test, for errors.
    pub(crate) what: &'a str,
    all: &'a [Argument],
    taken: Vec<bool>,
    /// The position of the first argument without a tag.
    last_tagged: usize,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(place: Position, what: &'a str, all: &'a [Argument]) -> Self {
        Arguments { place, what, all, taken: vec![false; all.len()], last_tagged: 0 }
    }

    fn find(&mut self, checker: &mut Checker<'_>, name: &str) -> Option<usize> {
        let is_it = |argument: &Argument| matches!(&argument.value, Value::Tag(tag) if tag == name);
        let mut found = (0..self.all.len()).filter(|at| self.all.get(*at).is_some_and(is_it));
        let at = found.next()?;
        if let Some(again) = found.next().and_then(|at| self.all.get(at)) {
            checker.error(again.place, format!("\":{name}\" occurs twice: remove one"));
        }
        for at in (0..self.all.len()).filter(|at| self.all.get(*at).is_some_and(is_it)) {
            self.take(at);
        }
        self.last_tagged = self.last_tagged.max(at);
        Some(at)
    }

    fn take(&mut self, at: usize) {
        if let Some(taken) = self.taken.get_mut(at) {
            *taken = true;
        }
    }

    /// Takes a tag without a value.
    pub(crate) fn flag(&mut self, checker: &mut Checker<'_>, name: &str) -> Option<Position> {
        let at = self.find(checker, name)?;
        self.all.get(at).map(|argument| argument.place)
    }

    /// Takes a tag of an extension.
    pub(crate) fn flag_of(&mut self, checker: &mut Checker<'_>, extension: Extension, name: &str) -> bool {
        let Some(place) = self.flag(checker, name) else { return false };
        checker.needs(extension, place, &format!("\":{name}\""));
        true
    }

    /// Takes a tag with its value.
    fn value(&mut self, checker: &mut Checker<'_>, name: &str, wanted: &str) -> Option<&'a Argument> {
        let at = self.find(checker, name)?;
        let value = self.all.get(at + 1).filter(|value| !matches!(value.value, Value::Tag(_)));
        match value {
            Some(value) => {
                self.take(at + 1);
                self.last_tagged = self.last_tagged.max(at + 1);
                Some(value)
            }
            None => {
                let place = self.all.get(at).map_or(self.place, |argument| argument.place);
                checker.error(place, format!("\":{name}\" needs {wanted} after it"));
                None
            }
        }
    }

    pub(crate) fn text_value(&mut self, checker: &mut Checker<'_>, name: &str) -> Option<Text> {
        let value = self.value(checker, name, "a string")?;
        text_of(checker, value, name)
    }

    /// A string that may have no variable.
    pub(crate) fn constant_value(
        &mut self,
        checker: &mut Checker<'_>,
        name: &str,
    ) -> Option<(Position, String)> {
        let value = self.value(checker, name, "a string")?;
        match text_of(checker, value, name)? {
            Text::Constant(text) => Some((value.place, text.into())),
            Text::Pieces(_) => {
                checker.error(value.place, format!("the string of \":{name}\" may have no variables in it"));
                None
            }
        }
    }

    pub(crate) fn texts_value(&mut self, checker: &mut Checker<'_>, name: &str) -> Option<Texts> {
        let value = self.value(checker, name, "a list of strings")?;
        texts_of(checker, value, name)
    }

    pub(crate) fn number_value(&mut self, checker: &mut Checker<'_>, name: &str) -> Option<(Position, u64)> {
        let value = self.value(checker, name, "a number")?;
        match value.value {
            Value::Number(number) => Some((value.place, number)),
            _ => {
                checker.error(value.place, format!("\":{name}\" needs a number, without quotes"));
                None
            }
        }
    }

    /// The other arguments, without tags, in order. A tag that remains is a fault.
    pub(crate) fn positional<const N: usize>(
        &mut self,
        checker: &mut Checker<'_>,
        wanted: [&str; N],
    ) -> Option<[&'a Argument; N]> {
        let left: Vec<(usize, &Argument)> = self.rest();
        let tag = left.iter().find_map(|(_, argument)| match &argument.value {
            Value::Tag(tag) => Some((argument.place, tag)),
            _ => None,
        });
        if let Some((place, tag)) = tag {
            checker.error(place, format!("\"{}\" knows no \":{tag}\" here: remove it", self.what));
            return None;
        }
        // RFC 5228 §2.6.2.
        if let Some((at, first)) = left.first()
            && *at < self.last_tagged
        {
            let place = first.place;
            checker.error(
                place,
                format!("the tags of \"{}\" must precede its other arguments: move them", self.what),
            );
            return None;
        }
        let arguments: Vec<&Argument> = left.into_iter().map(|(_, argument)| argument).collect();
        let count = arguments.len();
        match arguments.try_into() {
            Ok(arguments) => Some(arguments),
            Err(_) => {
                let wanted = if N == 0 { "nothing".into() } else { wanted.join(", then ") };
                let found = if count == 1 { "1 argument".into() } else { format!("{count} arguments") };
                checker.error(self.place, format!("\"{}\" needs {wanted}; there is {found}", self.what));
                None
            }
        }
    }

    /// The number of arguments that are left.
    pub(crate) fn left(&self) -> usize {
        self.taken.iter().filter(|taken| !**taken).count()
    }

    fn rest(&self) -> Vec<(usize, &'a Argument)> {
        let is_left = |at: &usize| self.taken.get(*at) == Some(&false);
        (0..self.all.len()).filter(is_left).filter_map(|at| Some((at, self.all.get(at)?))).collect()
    }
}

/// One string.
pub(crate) fn text_of(checker: &mut Checker<'_>, argument: &Argument, what: &str) -> Option<Text> {
    match &argument.value {
        Value::String(text) => Some(checker.text(argument.place, text)),
        // RFC 5228 §2.4.2.1 lets a string be written for a list, not a list for a string.
        _ => {
            checker.error(argument.place, format!("{what}: a string in double quotes is expected here"));
            None
        }
    }
}

/// A list of strings; one string is a list of one.
pub(crate) fn texts_of(checker: &mut Checker<'_>, argument: &Argument, what: &str) -> Option<Texts> {
    let sources = strings_of(checker, argument, what)?;
    Some(sources.into_iter().map(|(place, source)| checker.text(place, source)).collect())
}

/// The strings, unchanged.
pub(crate) fn strings_of<'a>(
    checker: &mut Checker<'_>,
    argument: &'a Argument,
    what: &str,
) -> Option<Vec<(Position, &'a str)>> {
    match &argument.value {
        Value::String(text) => Some(vec![(argument.place, text)]),
        Value::List(strings) => Some(strings.iter().map(|(place, text)| (*place, text.as_str())).collect()),
        Value::Tag(_) | Value::Number(_) => {
            checker.error(argument.place, format!("{what}: a string or a list of strings is expected here"));
            None
        }
    }
}

/// Strings without variables.
pub(crate) fn constants_of(
    checker: &mut Checker<'_>,
    argument: &Argument,
    what: &str,
) -> Option<Vec<(Position, String)>> {
    let sources = strings_of(checker, argument, what)?;
    let mut constants = Vec::with_capacity(sources.len());
    for (place, source) in sources {
        match checker.text(place, source) {
            Text::Constant(text) => constants.push((place, text.into())),
            Text::Pieces(_) => {
                checker.error(place, format!("{what}: this string may have no variables in it"));
                return None;
            }
        }
    }
    Some(constants)
}
