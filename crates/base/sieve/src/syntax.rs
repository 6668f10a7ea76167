//! A script as it is written: commands, tests and arguments, before anything is known of their
//! meaning. RFC 5228 §8.2.

use crate::error::Position;

/// A command with its arguments, tests and block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The position of its name.
    pub place: Position,
    /// The command's name in lower case.
    pub name: String,
    /// The command's arguments in order.
    pub arguments: Vec<Argument>,
    /// The command's tests: one, or a list.
    pub tests: Vec<Test>,
    /// The commands in braces, if there are braces.
    pub block: Option<Vec<Command>>,
}

/// A test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// The position of its name.
    pub place: Position,
    /// The test's name in lower case.
    pub name: String,
    /// The test's arguments in order.
    pub arguments: Vec<Argument>,
    /// The tests that follow: one, or a list.
    pub tests: Vec<Test>,
    /// Whether those are in parentheses.
    pub is_list: bool,
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The position where the argument begins.
    pub place: Position,
    /// The argument's value.
    pub value: Value,
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `:name`, in lower case.
    Tag(String),
    /// A number with its quantifier applied.
    Number(u64),
    /// A string.
    String(String),
    /// Strings in brackets.
    List(Vec<(Position, String)>),
}

/// Sets all places to none, so that scripts can be compared by their contents.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn forget_places(commands: &mut [Command]) {
    for command in commands {
        command.place = Position::default();
        forget_arguments(&mut command.arguments);
        forget_tests(&mut command.tests);
        forget_places(command.block.as_deref_mut().unwrap_or_default());
    }
}

#[cfg(any(test, feature = "fuzzing"))]
fn forget_tests(tests: &mut [Test]) {
    for test in tests {
        test.place = Position::default();
        forget_arguments(&mut test.arguments);
        forget_tests(&mut test.tests);
    }
}

#[cfg(any(test, feature = "fuzzing"))]
fn forget_arguments(arguments: &mut [Argument]) {
    for argument in arguments {
        argument.place = Position::default();
        if let Value::List(strings) = &mut argument.value {
            strings.iter_mut().for_each(|(place, _)| *place = Position::default());
        }
    }
}
