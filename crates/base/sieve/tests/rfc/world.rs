//! A world that tests fill in, and short ways to run a script in it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use posthaste_sieve::{Capabilities, Context, Effect, Location, Moment, Outcome, Script};

/// A message with what most tests need.
pub const MESSAGE: &str = "From: Ana <ana@example.org>\r\nTo: ken+sieve@example.com, \"Bo\" <bo@example.net>\r\n\
    Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= from Ana\r\nDate: Tue, 29 Feb 2000 23:05:09 -0730\r\nMessage-ID: <1@x>\r\n\
    X-Tag: one\r\nX-Tag: two\r\nX-Tag: three\r\nX-Empty:\r\n\r\nHello Ken,\r\nthe price is $10.\r\n";

/// The surroundings of a run.
pub struct World {
    pub from: String,
    pub to: String,
    pub mailboxes: Vec<&'static str>,
    pub scripts: HashMap<(Location, &'static str), Result<Arc<Script>, String>>,
    pub seen: Vec<String>,
    pub answered: bool,
    pub own: Vec<String>,
}

impl Default for World {
    fn default() -> Self {
        World {
            from: "ana@example.org".into(),
            to: "ken@example.com".into(),
            mailboxes: vec!["INBOX", "Work"],
            scripts: HashMap::new(),
            seen: Vec::new(),
            answered: false,
            own: vec!["ken+sieve@example.com".into()],
        }
    }
}

impl Context for World {
    fn envelope_from(&self) -> &str {
        &self.from
    }
    fn envelope_to(&self) -> &str {
        &self.to
    }
    fn now(&self) -> Moment {
        Moment { unix_s: 951_893_109, zone_minutes: 60 }
    }
    fn own_addresses(&self) -> &[String] {
        &self.own
    }
    fn mailbox_exists(&self, mailbox: &str) -> bool {
        self.mailboxes.contains(&mailbox)
    }
    fn mailbox_id_exists(&self, id: &str) -> bool {
        id == "F1"
    }
    fn special_use_exists(&self, mailbox: Option<&str>, flag: &str) -> bool {
        flag.eq_ignore_ascii_case("\\Junk") && mailbox.is_none_or(|mailbox| mailbox == "Spam")
    }
    fn metadata(&self, mailbox: Option<&str>, annotation: &str) -> Option<Cow<'_, str>> {
        (annotation == "/private/a")
            .then(|| Cow::Borrowed(if mailbox.is_some() { "of mailbox" } else { "of server" }))
    }
    fn environment(&self, item: &str) -> Option<Cow<'_, str>> {
        (item == "domain").then_some(Cow::Borrowed("example.com"))
    }
    fn is_duplicate(&self, key: &str) -> bool {
        self.seen.iter().any(|seen| seen == key)
    }
    fn was_answered(&self, _key: &str, _sender: &str, _seconds: Option<u64>) -> bool {
        self.answered
    }
    fn script(&self, location: Location, name: &str) -> Result<Option<Arc<Script>>, String> {
        let found = self.scripts.iter().find(|((at, known), _)| *at == location && *known == name);
        found.map(|(_, script)| script.clone()).transpose()
    }
}

impl World {
    pub fn with_script(mut self, location: Location, name: &'static str, source: &str) -> Self {
        let compiled = Script::compile(source, &Capabilities::default());
        self.scripts.insert((location, name), compiled.map(Arc::new).map_err(|errors| errors.to_string()));
        self
    }

    /// Runs a script that must compile.
    pub fn run(&self, script: &str, message: &str) -> Outcome {
        let script =
            Script::compile(script, &Capabilities::default()).unwrap_or_else(|e| panic!("{script}\n{e}"));
        script.run(message.as_bytes(), self)
    }
}

/// Runs a script that must end well; the effects in words.
pub fn effects(script: &str) -> Vec<String> {
    let outcome = World::default().run(script, MESSAGE);
    assert_eq!(outcome.error, None, "{script}");
    words(&outcome)
}

pub fn words(outcome: &Outcome) -> Vec<String> {
    outcome.effects.iter().map(short).collect()
}

fn short(effect: &Effect) -> String {
    match effect {
        Effect::Keep { flags, is_implicit, .. } => {
            let flags = flags.iter().map(|flag| format!(" {flag}")).collect::<String>();
            format!("{}{flags}", if *is_implicit { "implicit keep" } else { "keep" })
        }
        Effect::FileInto { target, .. } => {
            let flags = target.flags.iter().map(|flag| format!(" {flag}")).collect::<String>();
            format!("file {}{flags}", target.mailbox)
        }
        Effect::Redirect { address, .. } => format!("redirect {address}"),
        Effect::Discard => "discard".into(),
        Effect::Reject { reason, is_strict } => {
            format!("{} {reason}", if *is_strict { "ereject" } else { "reject" })
        }
        Effect::Vacation(reply) => format!("vacation {} {}", reply.to, reply.subject),
        Effect::Notify(notification) => format!("notify {}", notification.mailto.to.join(",")),
        Effect::Remember { key, .. } => format!("remember {key}"),
    }
}

/// Whether a test holds, under a list of extensions.
pub fn holds(require: &str, test: &str) -> bool {
    holds_in(&World::default(), require, test, MESSAGE)
}

pub fn holds_in(world: &World, require: &str, test: &str, message: &str) -> bool {
    let require = if require.is_empty() { String::new() } else { format!("require [{require}];") };
    let outcome = world.run(&format!("{require} if {test} {{ discard; }}"), message);
    assert_eq!(outcome.error, None, "{test}");
    match outcome.effects.first() {
        Some(Effect::Discard) => true,
        Some(Effect::Keep { is_implicit: true, .. }) => false,
        other => panic!("{test}: {other:?}"),
    }
}

/// Tests with what each must say.
pub fn check(require: &str, tests: &[(&str, bool)]) {
    for (test, expected) in tests {
        assert_eq!(holds(require, test), *expected, "{test}");
    }
}

/// The errors of a script that must not compile.
pub fn errors(script: &str) -> String {
    match Script::compile(script, &Capabilities::default()) {
        Ok(_) => panic!("compiles: {script}"),
        Err(errors) => errors.to_string(),
    }
}
