//! POP3 users whose sessions add up to the counts of a server: a session checks for mail, or
//! fetches it and may delete it.

use super::file::Body;
use super::profile::{Profile, think};

pub(super) fn workload(profile: &Profile) -> Result<Body, String> {
    let count = |names: &[&str]| -> f64 {
        let named =
            profile.commands.iter().filter(|c| c.protocol == "pop3" && names.contains(&c.command.as_str()));
        named.map(|c| c.count).sum::<u64>() as f64
    };
    let sessions = count(&["PASS", "APOP", "AUTH"]);
    if sessions <= 0.0 {
        return Err("no POP3 login was counted".into());
    }
    let (listings, retrieved, deleted) = (count(&["UIDL", "LIST"]), count(&["RETR"]), count(&["DELE"]));
    let mut notes = Vec::new();
    let stat = "do = \"stat\"".to_owned();
    let mut look = vec![stat.clone()];
    if listings >= sessions / 2.0 {
        look.push("do = \"uidl\"".into());
    }
    let mut fetch = look.clone();
    let fetching = retrieved.min(sessions);
    let each = if fetching > 0.0 { (retrieved / fetching).round().max(1.0) } else { 0.0 };
    fetch.push(format!("do = \"retr\", messages = \"last:{each:.0}\""));
    if deleted >= retrieved / 2.0 {
        fetch.push("do = \"dele\"".into());
    }
    let mut transactions = Vec::new();
    if sessions > fetching {
        transactions.push(("look".to_owned(), sessions - fetching, "Look and leave".to_owned(), look));
    }
    if fetching > 0.0 {
        let description = format!("{retrieved:.0} messages in {sessions:.0} sessions, {deleted:.0} deleted");
        transactions.push(("fetch".to_owned(), fetching, description, fetch));
        notes.push(
            "in how many sessions messages were retrieved is not counted: in as many as possible is a guess"
                .into(),
        );
    }
    if count(&["TOP"]) > 0.0 {
        notes.push(format!("{:.0} TOP commands are left out", count(&["TOP"])));
    }
    let session = "kind = \"each\"\ntrack = \"messages\"\n".to_owned();
    let fill = format!("inbox = {:.0}\n", (each * 2.0).max(10.0));
    Ok(Body { session, think_s: think(profile, sessions), fill, transactions, notes })
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::super::{Profile, learn};
    use crate::{Messages, TransactionStep, parse};

    #[test]
    fn sessions_look_or_fetch_and_delete() {
        let commands = vec![
            seen("pop3", "PASS", None, 100),
            seen("pop3", "STAT", None, 100),
            seen("pop3", "UIDL", None, 80),
            seen("pop3", "RETR", None, 30),
            seen("pop3", "DELE", None, 30),
            seen("pop3", "TOP", None, 4),
        ];
        let profile = Profile { seconds: Some(600.0), users: 20, commands, ..Profile::default() };
        let learned = learn("mine", &profile, None).unwrap();
        let workload = parse(&learned.toml, "mine").unwrap_or_else(|e| panic!("{e}\n{}", learned.toml));
        let [look, fetch] = &workload.transactions[..] else { panic!("{}", learned.toml) };
        assert!(matches!(look.steps[..], [TransactionStep::Stat, TransactionStep::Uidl]));
        assert!(matches!(
            fetch.steps[..],
            [
                TransactionStep::Stat,
                TransactionStep::Uidl,
                TransactionStep::Retr(Messages::LastN(1)),
                TransactionStep::Dele
            ]
        ));
        assert!((workload.choice.shares(2)[1] - 0.3).abs() < 1e-3);
        assert_eq!(workload.think, crate::Think::Exponential(120.0));
        assert!(learned.notes.iter().any(|n| n == "4 TOP commands are left out"), "{:?}", learned.notes);
    }
}
