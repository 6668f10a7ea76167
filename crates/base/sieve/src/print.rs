//! Commands as text again, which parses back to the same commands.

use crate::syntax::{Argument, Command, Test, Value};

/// A script as text.
pub fn print(commands: &[Command]) -> String {
    let mut text = String::new();
    print_commands(commands, 0, &mut text);
    text
}

fn print_commands(commands: &[Command], depth: usize, into: &mut String) {
    for command in commands {
        indent(depth, into);
        into.push_str(&command.name);
        print_arguments(&command.arguments, into);
        print_tests(&command.tests, command.tests.len() > 1, into);
        match &command.block {
            None => into.push_str(";\n"),
            Some(block) => {
                into.push_str(" {\n");
                print_commands(block, depth + 1, into);
                indent(depth, into);
                into.push_str("}\n");
            }
        }
    }
}

fn indent(depth: usize, into: &mut String) {
    into.extend(std::iter::repeat_n("    ", depth));
}

fn print_arguments(arguments: &[Argument], into: &mut String) {
    for argument in arguments {
        into.push(' ');
        match &argument.value {
            Value::Tag(tag) => {
                into.push(':');
                into.push_str(tag);
            }
            Value::Number(number) => into.push_str(&number.to_string()),
            Value::String(text) => print_string(text, into),
            Value::List(strings) => {
                into.push('[');
                for (index, (_, text)) in strings.iter().enumerate() {
                    if index > 0 {
                        into.push_str(", ");
                    }
                    print_string(text, into);
                }
                into.push(']');
            }
        }
    }
}

fn print_string(text: &str, into: &mut String) {
    into.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            into.push('\\');
        }
        into.push(c);
    }
    into.push('"');
}

fn print_tests(tests: &[Test], is_list: bool, into: &mut String) {
    if tests.is_empty() {
        return;
    }
    into.push_str(if is_list { " (" } else { " " });
    for (index, test) in tests.iter().enumerate() {
        if index > 0 {
            into.push_str(", ");
        }
        into.push_str(&test.name);
        print_arguments(&test.arguments, into);
        print_tests(&test.tests, test.is_list, into);
    }
    if is_list {
        into.push(')');
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::{one_of, properties};
    use proptest::prelude::*;

    use super::*;
    use crate::error::Position;
    use crate::limits::Limits;
    use crate::parser::parse;
    use crate::syntax::forget_places;

    fn name() -> impl Strategy<Value = String> {
        "[a-z_][a-z0-9_]{0,6}".prop_filter("begins a multi-line string", |name| name != "text")
    }

    fn argument() -> impl Strategy<Value = Argument> {
        // Line ends are CRLF in every value.
        let text = || "([ -~]|ü|\r\n){0,8}";
        let list = proptest::collection::vec(text().prop_map(|text| (Position::default(), text)), 0..4);
        one_of![
            name().prop_map(Value::Tag),
            any::<u64>().prop_map(Value::Number),
            text().prop_map(Value::String),
            list.prop_map(Value::List),
        ]
        .prop_map(|value| Argument { place: Position::default(), value })
    }

    fn arguments() -> impl Strategy<Value = Vec<Argument>> {
        proptest::collection::vec(argument(), 0..4)
    }

    fn test() -> impl Strategy<Value = Test> {
        let made = |name, arguments, tests: Vec<Test>, is_list| {
            let is_list = is_list || tests.len() > 1;
            Test { place: Position::default(), name, arguments, is_list: is_list && !tests.is_empty(), tests }
        };
        let leaf =
            (name(), arguments()).prop_map(move |(name, arguments)| made(name, arguments, Vec::new(), false));
        leaf.prop_recursive(4, 12, 3, move |inner| {
            (name(), arguments(), proptest::collection::vec(inner, 0..3), any::<bool>())
                .prop_map(move |(name, arguments, tests, is_list)| made(name, arguments, tests, is_list))
        })
    }

    fn command() -> impl Strategy<Value = Command> {
        let tests = || proptest::collection::vec(test(), 0..3);
        let made = |(name, arguments, tests, block)| Command {
            place: Position::default(),
            name,
            arguments,
            tests,
            block,
        };
        let leaf = (name(), arguments(), tests(), Just(None)).prop_map(made);
        leaf.prop_recursive(3, 12, 3, move |inner| {
            let block = proptest::option::of(proptest::collection::vec(inner, 0..3));
            (name(), arguments(), tests(), block).prop_map(made)
        })
    }

    properties! {
        #[test]
        fn printed_scripts_parse_to_the_same(commands in proptest::collection::vec(command(), 0..4)) {
            let text = print(&commands);
            let mut again = parse(&text, &Limits::default()).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            forget_places(&mut again);
            prop_assert_eq!(again, commands, "{}", text);
        }
    }
}
