//! The examples of the RFCs by our interpreter.

use posthaste_sieve::{Capabilities, Effect, Script};

use crate::world::World;

#[path = "../examples/mod.rs"]
mod table;

use table::{Example, FROM, TO, all};

fn actions(example: &Example) -> Vec<String> {
    let world = World { from: FROM.into(), to: TO.into(), own: vec![TO.into()], ..World::default() };
    let script = Script::compile(&example.text(), &Capabilities::default());
    let script = script.unwrap_or_else(|error| panic!("{}: {error}\n{}", example.section, example.text()));
    let outcome = script.run(example.mail().as_bytes(), &world);
    assert_eq!(outcome.error, None, "{}", example.section);
    let stored = |mailbox: &str, flags: &[String]| {
        let mut flags: Vec<_> = flags.iter().map(|flag| format!(" {}", flag.to_lowercase())).collect();
        flags.sort();
        format!("store {mailbox}{}", flags.concat())
    };
    let action = |effect: &Effect| match effect {
        Effect::Keep { flags, .. } => Some(stored("INBOX", flags)),
        Effect::FileInto { target, .. } => Some(stored(&target.mailbox, &target.flags)),
        Effect::Redirect { address, .. } => Some(format!("redirect {address}")),
        Effect::Reject { reason, .. } => Some(format!("reject {reason}")),
        Effect::Vacation(_) => Some("vacation".into()),
        Effect::Notify(_) => Some("notify".into()),
        Effect::Discard | Effect::Remember { .. } => None,
    };
    let mut actions: Vec<String> = outcome.effects.iter().filter_map(action).collect();
    actions.sort();
    actions
}

#[test]
fn examples_of_the_rfcs_do_what_they_say() {
    let mut count = 0;
    let mut faults = Vec::new();
    for example in all() {
        count += 1;
        let made = actions(example);
        if made != example.actions {
            faults.push(format!(
                "{}: {made:?}, not {:?}\n{}",
                example.section,
                example.actions,
                example.text()
            ));
        }
        assert!(example.theirs.is_none_or(|(theirs, why)| theirs != example.actions && !why.is_empty()));
    }
    assert!(faults.is_empty(), "{} of {count} differ\n{}", faults.len(), faults.join("\n"));
    assert!(count > 100, "{count}");
}
