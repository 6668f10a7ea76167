//! Commands as text again: what is parsed from it is what was printed.

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
