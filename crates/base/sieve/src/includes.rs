//! The scripts that a script may include. RFC 6609.

use crate::compiled::{Op, PlacedCommand};
use crate::context::Location;
use crate::script::Script;

impl Script {
    /// The scripts that it names in `include`, in their order, and as often as it names them. A
    /// name has no variables (RFC 6609 §3.1). So a run includes no other ones, apart from those
    /// that these include.
    pub fn includes(&self) -> Vec<(Location, &str)> {
        let mut found = Vec::new();
        add_includes(&self.block, &mut found);
        found
    }
}

/// Its depth is that of the blocks, which the parser has bounded.
fn add_includes<'s>(block: &'s [PlacedCommand], found: &mut Vec<(Location, &'s str)>) {
    for command in block {
        match &command.op {
            Op::If(branches, otherwise) => {
                branches.iter().for_each(|(_, block)| add_includes(block, found));
                add_includes(otherwise, found);
            }
            Op::ForEveryPart { block, .. } => add_includes(block, found),
            Op::Include(include) => {
                let location = if include.is_global { Location::Global } else { Location::Personal };
                found.push((location, &*include.name));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capabilities;

    #[test]
    fn includes_are_found_in_all_blocks() {
        let source = "require [\"include\", \"foreverypart\"]; include \"a\";\
            if exists \"x\" { include :global :once \"b\"; } elsif size :over 9 { if exists \"y\" { include \"c\"; } }\
            else { foreverypart { include :optional \"d\"; } } include \"a\";";
        let script = Script::compile(source, &Capabilities::default()).unwrap();
        let personal = |name| (Location::Personal, name);
        let expected = [personal("a"), (Location::Global, "b"), personal("c"), personal("d"), personal("a")];
        assert_eq!(script.includes(), expected);
        let plain = Script::compile("keep;", &Capabilities::default()).unwrap();
        assert!(plain.includes().is_empty());
    }
}
