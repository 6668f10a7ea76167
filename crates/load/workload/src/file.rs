//! Reading a workload file: every mistake is named with file, line and the nearest known word.

use std::collections::BTreeMap;

use posthaste_load_text::{Mistake, Source, suggestion};
use serde::Deserialize;
use toml::Spanned;

use crate::builtin::{is_mix, text_of};
use crate::corpus::{Shares, Sizes};
use crate::step::{MAILBOX_WORDS, MESSAGES_WORDS, RECIPIENT_WORDS};
use crate::{
    Between, Choice, Costing, Criterion, Fill, Mailbox, Messages, Modem, Protocol, Recipient, SessionKind,
    Think, Track, Transaction, TransactionStep, Workload,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWorkload {
    name: Spanned<String>,
    description: String,
    #[serde(default)]
    after: String,
    #[serde(default)]
    protocol: Option<Spanned<String>>,
    #[serde(default)]
    tls: bool,
    #[serde(default)]
    session: RawSession,
    #[serde(default)]
    think: Option<RawThink>,
    #[serde(default)]
    mail: RawMail,
    #[serde(default)]
    fill: RawFill,
    choose: RawChoose,
    transaction: Vec<RawTransaction>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawSession {
    kind: Option<Spanned<String>>,
    track: Option<Spanned<String>>,
    modem: Option<Spanned<RawModem>>,
    #[serde(default)]
    open: Vec<Spanned<RawStep>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawModem {
    bits_per_s: u32,
    share: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawThink {
    distribution: Spanned<String>,
    seconds: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    sigma: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawMail {
    sizes: Option<Spanned<String>>,
    messages: Option<[u32; 2]>,
    mailboxes: Option<[u32; 2]>,
    #[serde(default)]
    arrivals_per_user_per_hour: f64,
    rich: Option<Spanned<f64>>,
    shared_attachments: Option<Spanned<f64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawFill {
    #[serde(default)]
    folders: u32,
    #[serde(default)]
    inbox: u32,
    #[serde(default)]
    per_folder: u32,
    sizes: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChoose {
    by: Spanned<String>,
    start: Option<Spanned<String>>,
    order: Option<Vec<Spanned<String>>>,
    frequency: Option<BTreeMap<Spanned<String>, f64>>,
    transition: Option<BTreeMap<Spanned<String>, Spanned<Vec<f64>>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTransaction {
    name: Spanned<String>,
    #[serde(default)]
    description: String,
    cost: Option<Spanned<String>>,
    needs: Option<Spanned<String>>,
    #[serde(default)]
    before: Vec<Spanned<RawStep>>,
    steps: Vec<Spanned<RawStep>>,
    #[serde(default)]
    after: Vec<Spanned<RawStep>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    r#do: Spanned<String>,
    mailbox: Option<Spanned<String>>,
    messages: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    items: Option<String>,
    criterion: Option<Spanned<String>>,
    how: Option<String>,
    flags: Option<String>,
    pattern: Option<String>,
    command: Option<String>,
    seconds: Option<f64>,
}

/// A built-in workload by name, or a file by path.
pub fn load(name: &str) -> Result<Workload, Mistake> {
    let text = text_of(name)?;
    if is_mix(&text) {
        return Err(Mistake::bare(format!(
            "`{name}` is a mix of users, and one workload is needed: `run` and `populate` take mixes"
        )));
    }
    parse(&text, name)
}

/// Reads a workload; `file` is what errors call it.
pub fn parse(text: &str, file: &str) -> Result<Workload, Mistake> {
    let source = Source { file, text };
    let raw: RawWorkload = source.read()?;
    let reader = Reader { source, names: raw.transaction.iter().map(|t| t.name.get_ref().clone()).collect() };
    reader.workload(raw)
}

struct Reader<'a> {
    source: Source<'a>,
    names: Vec<String>,
}

impl Reader<'_> {
    fn workload(&self, raw: RawWorkload) -> Result<Workload, Mistake> {
        let protocol = match raw.protocol {
            None => Protocol::Imap,
            Some(word) => self.source.word(&word, &[("imap", Protocol::Imap), ("pop3", Protocol::Pop3)])?,
        };
        let transactions =
            raw.transaction.iter().map(|t| self.one(t, protocol)).collect::<Result<Vec<_>, Mistake>>()?;
        if transactions.is_empty() {
            return Err(self.source.at(raw.name.span(), "a workload needs at least one [[transaction]]"));
        }
        let choice = self.choice(&raw.choose)?;
        let kinds = [("online", SessionKind::Online), ("each", SessionKind::Each)];
        let tracks = [("messages", Track::Messages), ("static", Track::Static)];
        let [few, many] = raw.mail.messages.unwrap_or([1, u32::MAX]);
        let [small, large] = raw.mail.mailboxes.unwrap_or([1, u32::MAX]);
        Ok(Workload {
            name: raw.name.into_inner(),
            description: raw.description,
            after: raw.after,
            protocol,
            tls: raw.tls,
            session: raw.session.kind.map_or(Ok(SessionKind::Online), |w| self.source.word(&w, &kinds))?,
            track: raw.session.track.map_or(Ok(Track::Messages), |w| self.source.word(&w, &tracks))?,
            modem: raw.session.modem.map(|m| self.modem(&m)).transpose()?,
            opening: raw.session.open.iter().map(|s| self.step(s, protocol)).collect::<Result<_, _>>()?,
            think: raw.think.map_or(Ok(Think::Fixed(0.0)), |t| self.think(&t))?,
            choice,
            transactions,
            messages: Between { min: few, max: many },
            mailboxes: Between { min: small, max: large },
            sizes: self.sizes(raw.mail.sizes.as_ref())?,
            shares: Shares {
                rich: self.share(raw.mail.rich.as_ref())?,
                shared_attachments: self.share(raw.mail.shared_attachments.as_ref())?,
            },
            arrivals_per_user_per_s: raw.mail.arrivals_per_user_per_hour / 3600.0,
            fill: Fill {
                folders: raw.fill.folders,
                inbox: raw.fill.inbox,
                per_folder: raw.fill.per_folder,
                sizes: self.sizes(raw.fill.sizes.as_ref())?,
            },
            source: self.source.text.to_owned(),
        })
    }

    fn one(&self, raw: &RawTransaction, protocol: Protocol) -> Result<Transaction, Mistake> {
        let steps = |steps: &[Spanned<RawStep>]| {
            steps.iter().map(|step| self.step(step, protocol)).collect::<Result<Vec<_>, Mistake>>()
        };
        let costs = [("window", Costing::Window), ("alone", Costing::Alone)];
        let transaction = Transaction {
            name: raw.name.get_ref().clone(),
            description: raw.description.clone(),
            steps: steps(&raw.steps)?,
            cost: raw.cost.as_ref().map_or(Ok(Costing::Window), |word| self.source.word(word, &costs))?,
            before: steps(&raw.before)?,
            after: steps(&raw.after)?,
            needs_lmtp: match &raw.needs {
                Some(word) => self.source.word(word, &[("lmtp", true)])?,
                None => false,
            },
        };
        let aside = !transaction.before.is_empty() || !transaction.after.is_empty();
        if aside && transaction.cost == Costing::Window {
            let what = "steps `before` and `after` a transaction need `cost = \"alone\"`: a window has their cost, too";
            return Err(self.source.at(raw.name.span(), what));
        }
        Ok(transaction)
    }

    fn modem(&self, raw: &Spanned<RawModem>) -> Result<Modem, Mistake> {
        let RawModem { bits_per_s, share } = *raw.get_ref();
        if bits_per_s < 300 || !(0.0..=1.0).contains(&share) {
            let what = "a modem has `bits_per_s` of at least 300 and a `share` of users from 0 to 1";
            return Err(self.source.at(raw.span(), what));
        }
        Ok(Modem { bytes_per_s: bits_per_s / 8, share })
    }

    fn share(&self, given: Option<&Spanned<f64>>) -> Result<f64, Mistake> {
        match given {
            None => Ok(0.0),
            Some(share) if (0.0..=1.0).contains(share.get_ref()) => Ok(*share.get_ref()),
            Some(share) => Err(self.source.at(share.span(), "a share of the mail is from 0 to 1")),
        }
    }

    fn sizes(&self, word: Option<&Spanned<String>>) -> Result<Sizes, Mistake> {
        word.map_or(Ok(Sizes::Html), |w| {
            w.get_ref().parse().map_err(|e: String| self.source.at(w.span(), &e))
        })
    }

    fn think(&self, raw: &RawThink) -> Result<Think, Mistake> {
        let need = |value: Option<f64>, name: &str| {
            let what = format!("`{}` think time needs `{name}`", raw.distribution.get_ref());
            value.filter(|v| *v >= 0.0).ok_or_else(|| self.source.at(raw.distribution.span(), &what))
        };
        let kinds = [("fixed", 0), ("uniform", 1), ("exponential", 2), ("lognormal", 3)];
        Ok(match self.source.word(&raw.distribution, &kinds)? {
            0 => Think::Fixed(need(raw.seconds, "seconds")?),
            1 => Think::Uniform(need(raw.low, "low")?, need(raw.high, "high")?),
            2 => Think::Exponential(need(raw.seconds, "seconds")?),
            _ => Think::Lognormal(need(raw.seconds, "seconds")?, need(raw.sigma, "sigma")?),
        })
    }

    fn transaction(&self, name: &Spanned<String>) -> Result<usize, Mistake> {
        let at = self.names.iter().position(|n| n == name.get_ref());
        at.ok_or_else(|| {
            let hint = suggestion(name.get_ref(), self.names.iter().map(String::as_str));
            self.source.at(name.span(), &format!("no [[transaction]] is called `{}`{hint}", name.get_ref()))
        })
    }

    fn choice(&self, raw: &RawChoose) -> Result<Choice, Mistake> {
        let missing = |what: &str| {
            let by = raw.by.get_ref();
            self.source.at(raw.by.span(), &format!("[choose] by = \"{by}\" needs {what}"))
        };
        match self.source.word(&raw.by, &[("markov", 0), ("frequency", 1), ("sequence", 2)])? {
            0 => {
                let rows = raw.transition.as_ref().ok_or_else(|| missing("[choose.transition]"))?;
                let mut table = vec![Vec::new(); self.names.len()];
                for (name, row) in rows {
                    let from = self.transaction(name)?;
                    let positive = row.get_ref().iter().sum::<f64>() > 0.0;
                    if row.get_ref().len() != self.names.len() || !positive {
                        let what =
                            format!("a row needs {} columns, one per [[transaction]]", self.names.len());
                        return Err(self.source.at(row.span(), &what));
                    }
                    table[from] = row.get_ref().clone();
                }
                if let Some(without) = table.iter().position(Vec::is_empty) {
                    return Err(missing(&format!("a row for `{}`", self.names[without])));
                }
                let start = raw.start.as_ref().map_or(Ok(0), |name| self.transaction(name))?;
                Ok(Choice::Markov { start, table })
            }
            1 => {
                let given = raw.frequency.as_ref().ok_or_else(|| missing("[choose.frequency]"))?;
                let mut weights = vec![0.0; self.names.len()];
                for (name, weight) in given {
                    weights[self.transaction(name)?] = *weight;
                }
                if weights.iter().sum::<f64>() <= 0.0 {
                    return Err(missing("a frequency above zero"));
                }
                Ok(Choice::Frequency(weights))
            }
            _ => {
                let all = (0..self.names.len()).collect();
                let order = match &raw.order {
                    Some(order) => {
                        order.iter().map(|n| self.transaction(n)).collect::<Result<Vec<_>, _>>()?
                    }
                    None => all,
                };
                if order.is_empty() {
                    Err(missing("an `order` of at least one"))
                } else {
                    Ok(Choice::Sequence(order))
                }
            }
        }
    }

    fn step(&self, raw: &Spanned<RawStep>, protocol: Protocol) -> Result<TransactionStep, Mistake> {
        let step = StepReader { source: &self.source, raw: raw.get_ref(), used: Vec::new().into() }.read()?;
        let fits = if protocol == Protocol::Imap { !step.is_pop3() } else { !step.is_imap() };
        if fits {
            return Ok(step);
        }
        let what =
            format!("step `{}` does not belong to this workload's protocol", raw.get_ref().r#do.get_ref());
        Err(self.source.at(raw.span(), &what))
    }
}

/// Reads one step and checks that it has its arguments and no others.
struct StepReader<'a> {
    source: &'a Source<'a>,
    raw: &'a RawStep,
    used: std::cell::RefCell<Vec<&'static str>>,
}

/// Every word for `do`.
const VERBS: &[&str] = &[
    "capability",
    "raw",
    "noop",
    "check",
    "list",
    "status",
    "select",
    "examine",
    "unselect",
    "fetch",
    "search",
    "store",
    "copy",
    "move",
    "expunge",
    "append",
    "create",
    "delete",
    "rename",
    "idle",
    "send",
    "await-delivery",
    "pause",
    "stat",
    "uidl",
    "retr",
    "dele",
];

impl StepReader<'_> {
    fn read(self) -> Result<TransactionStep, Mistake> {
        let step = match self.raw.r#do.get_ref().as_str() {
            "capability" => TransactionStep::Capability,
            "raw" => TransactionStep::Raw(self.text("command", self.raw.command.as_ref())?),
            "noop" => TransactionStep::Noop,
            "check" => TransactionStep::Check,
            "list" => TransactionStep::List(
                self.optional("pattern", self.raw.pattern.as_ref()).unwrap_or_else(|| "*".into()),
            ),
            "status" => {
                let items = self.optional("items", self.raw.items.as_ref());
                TransactionStep::Status(
                    self.mailbox(Mailbox::Random)?,
                    items.unwrap_or_else(|| "MESSAGES UNSEEN UIDNEXT".into()),
                )
            }
            "select" => TransactionStep::Select { mailbox: self.mailbox(Mailbox::Random)?, examine: false },
            "examine" => TransactionStep::Select { mailbox: self.mailbox(Mailbox::Random)?, examine: true },
            "unselect" => TransactionStep::Unselect,
            "fetch" => TransactionStep::Fetch(
                self.messages(Messages::All)?,
                self.text("items", self.raw.items.as_ref())?,
            ),
            "search" => TransactionStep::Search(self.criterion()?),
            "store" => TransactionStep::Store {
                messages: self.messages(Messages::One)?,
                how: self.optional("how", self.raw.how.as_ref()).unwrap_or_else(|| "+FLAGS".into()),
                flags: self.text("flags", self.raw.flags.as_ref())?,
            },
            "copy" => TransactionStep::Copy(self.messages(Messages::One)?, self.mailbox(Mailbox::Other)?),
            "move" => TransactionStep::Move(self.messages(Messages::One)?, self.mailbox(Mailbox::Other)?),
            "expunge" => TransactionStep::Expunge,
            "append" => TransactionStep::Append(self.mailbox(Mailbox::Current)?),
            "create" => TransactionStep::Create,
            "delete" => TransactionStep::Delete,
            "rename" => TransactionStep::Rename,
            "idle" => TransactionStep::Idle(self.seconds(30.0)),
            "send" => TransactionStep::Send { to: self.recipient()? },
            "await-delivery" => TransactionStep::AwaitDelivery(self.seconds(30.0)),
            "pause" => TransactionStep::Pause(self.seconds(1.0)),
            "stat" => TransactionStep::Stat,
            "uidl" => TransactionStep::Uidl,
            "retr" => TransactionStep::Retr(self.messages(Messages::New)?),
            "dele" => TransactionStep::Dele,
            other => {
                let what = format!("no step is called `{other}`{}", suggestion(other, VERBS.iter().copied()));
                return Err(self.source.at(self.raw.r#do.span(), &what));
            }
        };
        self.nothing_else()?;
        Ok(step)
    }

    fn nothing_else(&self) -> Result<(), Mistake> {
        let raw = self.raw;
        let given = [
            ("mailbox", raw.mailbox.is_some()),
            ("messages", raw.messages.is_some()),
            ("to", raw.to.is_some()),
            ("items", raw.items.is_some()),
            ("criterion", raw.criterion.is_some()),
            ("how", raw.how.is_some()),
            ("flags", raw.flags.is_some()),
            ("pattern", raw.pattern.is_some()),
            ("command", raw.command.is_some()),
            ("seconds", raw.seconds.is_some()),
        ];
        let used = self.used.borrow();
        match given.iter().find(|(name, is_given)| *is_given && !used.contains(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let verb = raw.r#do.get_ref();
                Err(self.source.at(raw.r#do.span(), &format!("step `{verb}` has no field `{name}`")))
            }
        }
    }

    fn optional(&self, name: &'static str, value: Option<&String>) -> Option<String> {
        self.used.borrow_mut().push(name);
        value.cloned()
    }

    fn text(&self, name: &'static str, value: Option<&String>) -> Result<String, Mistake> {
        self.optional(name, value).filter(|text| !text.contains(['\r', '\n'])).ok_or_else(|| {
            let verb = self.raw.r#do.get_ref();
            self.source.at(self.raw.r#do.span(), &format!("step `{verb}` needs `{name}`, one line"))
        })
    }

    fn seconds(&self, default: f64) -> f64 {
        self.used.borrow_mut().push("seconds");
        self.raw.seconds.unwrap_or(default).clamp(0.0, 86_400.0)
    }

    fn chosen<T>(
        &self,
        name: &'static str,
        value: Option<&Spanned<String>>,
        from_word: impl Fn(&str) -> Option<T>,
        known: &[&str],
        default: T,
    ) -> Result<T, Mistake> {
        self.used.borrow_mut().push(name);
        let Some(word) = value else { return Ok(default) };
        from_word(word.get_ref()).ok_or_else(|| {
            let hint = suggestion(word.get_ref(), known.iter().copied());
            self.source.at(word.span(), &format!("unknown `{name}`: `{}`{hint}", word.get_ref()))
        })
    }

    fn mailbox(&self, default: Mailbox) -> Result<Mailbox, Mistake> {
        // COPY and MOVE say `to`, the others `mailbox`.
        if self.raw.to.is_some() {
            return self.chosen("to", self.raw.to.as_ref(), Mailbox::from_word, MAILBOX_WORDS, default);
        }
        self.chosen("mailbox", self.raw.mailbox.as_ref(), Mailbox::from_word, MAILBOX_WORDS, default)
    }

    fn messages(&self, default: Messages) -> Result<Messages, Mistake> {
        self.chosen("messages", self.raw.messages.as_ref(), Messages::from_word, MESSAGES_WORDS, default)
    }

    fn recipient(&self) -> Result<Recipient, Mistake> {
        self.chosen("to", self.raw.to.as_ref(), Recipient::from_word, RECIPIENT_WORDS, Recipient::Random)
    }

    fn criterion(&self) -> Result<Criterion, Mistake> {
        let known = ["subject", "unseen", "deleted", "ALL or any other search program in capitals"];
        self.chosen(
            "criterion",
            self.raw.criterion.as_ref(),
            Criterion::from_word,
            &known,
            Criterion::Subject,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        parse(text, "mine.toml").unwrap_err().to_string()
    }

    const GOOD: &str = "name = 'x'\ndescription = 'y'\n[choose]\nby = 'sequence'\n[[transaction]]\nname = 'a'\nsteps = [\n  { do = 'noop' },\n]\n";

    #[test]
    fn a_valid_file_is_read() {
        assert_eq!(parse(GOOD, "f").unwrap().transactions[0].steps, [TransactionStep::Noop]);
    }

    #[test]
    fn a_share_of_the_users_is_on_a_modem() {
        let with = |modem: &str| GOOD.replace("[choose]", &format!("[session]\nmodem = {modem}\n[choose]"));
        let workload = parse(&with("{ bits_per_s = 56000, share = 0.9 }"), "f").unwrap();
        assert_eq!(workload.modem, Some(Modem { bytes_per_s: 7000, share: 0.9 }));
        assert!(mistake(&with("{ bits_per_s = 56000, share = 90 }")).contains("from 0 to 1"));
        assert_eq!(parse(GOOD, "f").unwrap().modem, None);
    }

    #[test]
    fn a_transaction_may_be_measured_alone_between_steps_that_are_not() {
        let with = |more: &str| GOOD.replace("steps = [", &format!("{more}\nsteps = ["));
        let alone = with("cost = 'alone'\nbefore = [{ do = 'check' }]\nafter = [{ do = 'unselect' }]");
        let workload = parse(&alone, "f").unwrap_or_else(|e| panic!("{e}"));
        let only = &workload.transactions[0];
        assert_eq!(
            (&only.before[..], &only.after[..]),
            (&[TransactionStep::Check][..], &[TransactionStep::Unselect][..])
        );
        assert!(workload.is_measured_alone() && !parse(GOOD, "f").unwrap().is_measured_alone());
        let error = mistake(&with("before = [{ do = 'check' }]"));
        assert!(error.starts_with("mine.toml:6:") && error.contains("`cost = \"alone\"`"), "{error}");
        assert!(mistake(&with("cost = 'alnoe'")).contains("`alone`"));
        assert!(parse(&with("needs = 'lmtp'"), "f").unwrap().transactions[0].needs_lmtp);
    }

    #[test]
    fn mistakes_name_file_line_and_the_nearest_word() {
        let error = mistake(&GOOD.replace("by =", "bye ="));
        assert!(error.starts_with("mine.toml:4:"), "{error}");
        assert!(error.contains("`bye`") && error.contains("nearest known is `by`"), "{error}");
        let error = mistake(&GOOD.replace("'noop'", "'nop'"));
        assert!(error.starts_with("mine.toml:8:") && error.contains("`noop`"), "{error}");
        let error = mistake(&GOOD.replace("'noop'", "'noop', items = 'FLAGS'"));
        assert!(error.contains("step `noop` has no field `items`"), "{error}");
        let error = mistake(&GOOD.replace("'noop'", "'select', mailbox = 'inbx'"));
        assert!(error.contains("nearest known is `inbox`"), "{error}");
        let error = mistake(&GOOD.replace("'sequence'", "'sequence'\norder = ['b']"));
        assert!(error.starts_with("mine.toml:5:") && error.contains("`b`"), "{error}");
        let error = mistake(&GOOD.replace("'noop'", "'retr'"));
        assert!(error.contains("protocol"), "{error}");
        assert!(load("koka-brows").unwrap_err().to_string().contains("koka-browse"));
    }
}
