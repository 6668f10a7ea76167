//! The checker: syntax to the compiled form. Everything that can be wrong before a message comes is
//! found here, and all of it is reported, not the first fault only.

mod actions;
mod arguments;
mod checker;
mod matcher;
mod tests;

use posthaste_mime_summary::InBounds;

use crate::check::actions::action;
use crate::check::arguments::{Arguments, constants_of};
use crate::check::checker::Checker;
use crate::check::tests::test;
use crate::compiled::{Block, Op, PlacedCommand, Test};
use crate::error::{CompileError, Position};
use crate::extension::{Extension, ExtensionSet};
use crate::limits::Limits;
use crate::syntax::Command;

pub(crate) use tests::is_address_field;

/// The result of a check.
pub(crate) struct Checked {
    pub(crate) block: Block,
    pub(crate) enabled: ExtensionSet,
    pub(crate) locals: u16,
    pub(crate) regexes: usize,
}

/// Checks a whole script.
pub(crate) fn check(
    commands: &[Command],
    allowed: ExtensionSet,
    limits: &Limits,
) -> Result<Checked, Vec<CompileError>> {
    let mut checker = Checker::new(limits, allowed);
    // RFC 5228 §3.2: `require` precedes all other commands.
    let requires = commands.iter().take_while(|command| command.name == "require").count();
    let (requires, rest) = commands.split_at_checked(requires).unwrap_or((&[], commands));
    requires.iter().for_each(|command| require(&mut checker, command));
    let block = commands_of(&mut checker, rest);
    if checker.errors.is_empty() {
        let (locals, regexes) = (checker.locals(), checker.regexes());
        return Ok(Checked { block, enabled: checker.enabled, locals, regexes });
    }
    checker.errors.sort_by_key(|error| error.place);
    Err(checker.errors)
}

fn require(checker: &mut Checker<'_>, command: &Command) {
    plain(checker, command);
    let mut arguments = Arguments::new(command.place, "require", &command.arguments);
    let Some([names]) = arguments.positional(checker, ["names of extensions"]) else { return };
    let Some(names) = constants_of(checker, names, "require") else { return };
    names.into_iter().for_each(|(place, name)| checker.require(place, &name));
}

/// A command without tests and block.
fn plain(checker: &mut Checker<'_>, command: &Command) {
    if !command.tests.is_empty() {
        checker.error(command.place, format!("\"{}\" takes no tests", command.name));
    }
    if command.block.is_some() {
        checker.error(command.place, format!("\"{}\" takes no block: end it with \";\"", command.name));
    }
}

fn commands_of(checker: &mut Checker<'_>, commands: &[Command]) -> Block {
    let mut steps: Vec<PlacedCommand> = Vec::with_capacity(commands.len());
    let mut at = 0;
    while let Some(command) = commands.get(at) {
        at += 1;
        let op = match command.name.as_str() {
            "if" => {
                let rest = commands.in_bounds(at..);
                let more =
                    rest.iter().take_while(|next| matches!(next.name.as_str(), "elsif" | "else")).count();
                at += more;
                Some(chain(checker, command, rest.in_bounds(..more)))
            }
            "elsif" | "else" => {
                checker.error(command.place, format!("\"{}\" must follow \"if\" or \"elsif\"", command.name));
                None
            }
            "require" => {
                checker.error(
                    command.place,
                    "\"require\" must precede all other commands: move it to the beginning",
                );
                None
            }
            "foreverypart" => for_every_part(checker, command),
            "global" => {
                global(checker, command);
                None
            }
            name => {
                plain(checker, command);
                let mut arguments = Arguments::new(command.place, name, &command.arguments);
                action(checker, name, command.place, &mut arguments)
            }
        };
        steps.extend(op.map(|op| PlacedCommand { place: command.place, op }));
    }
    steps.into()
}

/// if, then any number of elsif, then one else at most. RFC 5228 §3.1.
fn chain(checker: &mut Checker<'_>, first: &Command, more: &[Command]) -> Op {
    let mut branches: Vec<(Test, Block)> = Vec::new();
    let mut otherwise = None;
    // `ihave` may decide a test here: a branch that cannot be taken is not checked (RFC 5463 §4).
    let mut is_decided = false;
    for command in std::iter::once(first).chain(more) {
        if otherwise.is_some() {
            checker.error(
                command.place,
                format!("\"{}\" must not follow \"else\": move it before", command.name),
            );
            break;
        }
        if command.name == "else" {
            Arguments::new(command.place, "else", &command.arguments).positional(checker, []);
            if !command.tests.is_empty() {
                checker.error(command.place, "\"else\" takes no test: write \"elsif\" for one");
            }
            otherwise = Some(if is_decided { Block::default() } else { block_of(checker, command) });
            continue;
        }
        if is_decided {
            continue;
        }
        Arguments::new(command.place, &command.name, &command.arguments).positional(checker, []);
        let [source] = command.tests.as_slice() else {
            checker.error(
                command.place,
                format!("\"{}\" needs one test: put several into allof (…) or anyof (…)", command.name),
            );
            continue;
        };
        let checked = test(checker, source);
        match checked.known {
            Some(false) => {}
            Some(true) => {
                let block = block_of(checker, command);
                branches.push((Test::Constant(true), block));
                is_decided = true;
            }
            None => {
                let block = block_of(checker, command);
                branches.push((checked.test, block));
            }
        }
    }
    Op::If(branches.into(), otherwise.unwrap_or_default())
}

fn block_of(checker: &mut Checker<'_>, command: &Command) -> Block {
    match &command.block {
        Some(block) => commands_of(checker, block),
        None => {
            checker.error(command.place, format!("\"{}\" needs a block in braces", command.name));
            Block::default()
        }
    }
}

/// RFC 5703 §3.
fn for_every_part(checker: &mut Checker<'_>, command: &Command) -> Option<Op> {
    /// RFC 5703 §3: four at least.
    const LOOPS_MAX: usize = 4;
    checker.needs(Extension::ForEveryPart, command.place, "\"foreverypart\"");
    if !command.tests.is_empty() {
        checker.error(command.place, "\"foreverypart\" takes no tests");
    }
    let mut arguments = Arguments::new(command.place, "foreverypart", &command.arguments);
    let name = arguments.constant_value(checker, "name").map(|(_, name)| name);
    arguments.positional(checker, [])?;
    if checker.loops.len() >= LOOPS_MAX {
        checker.error(command.place, format!("foreverypart nests {LOOPS_MAX} deep at most"));
        return None;
    }
    checker.loops.push(name.clone());
    let block = block_of(checker, command);
    checker.loops.pop();
    Some(Op::ForEveryPart { name: name.map(Into::into), block })
}

/// RFC 6609 §3.3.
fn global(checker: &mut Checker<'_>, command: &Command) {
    plain(checker, command);
    let place: Position = command.place;
    checker.needs(Extension::Include, place, "the command \"global\"");
    checker.needs(Extension::Variables, place, "the command \"global\"");
    let mut arguments = Arguments::new(place, "global", &command.arguments);
    let Some([names]) = arguments.positional(checker, ["names of variables"]) else { return };
    let Some(names) = constants_of(checker, names, "global") else { return };
    names.into_iter().for_each(|(place, name)| checker.declare_global(place, &name));
}
