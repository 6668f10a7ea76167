//! How long mail stays in the INBOX: what POP3 says with EXPIRE (RFC 2449 §6.7).

use crate::rule::Rule;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// How long mail stays in an INBOX at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Until its user removes it.
    Forever,
    /// This number of days, at least one.
    Days(u64),
    /// No number of days is certain: a rule counts messages, or its age is less than a day.
    Uncertain,
}

/// The rules that are for the INBOX of some account.
#[derive(Clone, Debug, Default)]
pub struct InboxExpiry {
    rules: Vec<Rule>,
}

impl InboxExpiry {
    /// Selects them from all rules.
    pub fn new(rules: &[Rule]) -> Self {
        Self { rules: rules.iter().filter(|rule| rule.is_for_inbox()).cloned().collect() }
    }

    /// How long mail stays in this account's INBOX.
    pub fn of(&self, account: &str) -> Stay {
        least(self.rules.iter().filter(|rule| rule.is_for_account(account)))
    }

    /// The shortest stay in any account's INBOX.
    pub fn least(&self) -> Stay {
        least(self.rules.iter())
    }

    /// Whether accounts may differ.
    pub fn differs(&self) -> bool {
        self.rules.iter().any(|rule| !rule.is_for_all_accounts())
    }
}

fn least<'r>(rules: impl Iterator<Item = &'r Rule>) -> Stay {
    rules.map(stay).fold(Stay::Forever, |least, stay| match (least, stay) {
        (Stay::Uncertain, _) | (_, Stay::Uncertain) => Stay::Uncertain,
        (Stay::Days(one), Stay::Days(other)) => Stay::Days(one.min(other)),
        (Stay::Forever, other) | (other, Stay::Forever) => other,
    })
}

/// How long a rule lets a message stay. A younger message never matches, whatever the other
/// conditions are.
fn stay(rule: &Rule) -> Stay {
    match rule.older_than.map(|age| age.as_secs() / DAY_SECONDS) {
        Some(days @ 1..) => Stay::Days(days),
        // RFC 2449 §6.7 gives 0 another meaning: mail is removed once it was read.
        Some(0) | None => Stay::Uncertain,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rule::Action;

    fn rule(accounts: &str, mailbox: &str, days: Option<u64>) -> Rule {
        Rule {
            accounts: vec![accounts.to_owned()],
            mailbox: mailbox.to_owned(),
            older_than: days.map(|days| Duration::from_secs(days * DAY_SECONDS + 3_600)),
            keep_newest: Some(1_000),
            keep_flagged: true,
            age_from: None,
            action: Action::Trash,
        }
    }

    #[test]
    fn the_least_of_the_rules_for_the_inbox_counts() {
        let none = InboxExpiry::new(&[rule("*", "Lists/*", Some(3)), rule("*", r"\Trash", Some(3))]);
        assert_eq!((none.of("ana@x"), none.least(), none.differs()), (Stay::Forever, Stay::Forever, false));
        let rules = [rule("*", "*", Some(90)), rule("*@y", "INBOX", Some(7)), rule("*", "Lists/*", Some(3))];
        let some = InboxExpiry::new(&rules);
        assert_eq!((some.of("ana@x"), some.of("ben@y")), (Stay::Days(90), Stay::Days(7)));
        assert_eq!((some.least(), some.differs()), (Stay::Days(7), true));
        assert!(!InboxExpiry::new(&rules[..1]).differs());
        for uncertain in [rule("*", "inbox", None), rule("*", "INBOX", Some(0))] {
            let expiry = InboxExpiry::new(&[rule("*", "%", Some(90)), uncertain]);
            assert_eq!(expiry.least(), Stay::Uncertain);
        }
    }
}
