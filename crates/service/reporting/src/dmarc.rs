//! Mail that other hosts brought in the name of a domain, with its results of SPF and DKIM
//! (RFC 7489 §7.2).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tally::{TALLY_LEN_MAX, Tally, escaped_len};

/// Rows of one domain and period. A domain whose name is forged everywhere has thousands of
/// addresses; addresses beyond the limit are not reported.
const ROWS_MAX: usize = 1_000;
/// Signatures of a message that a row names.
const SIGNATURES_MAX: usize = 4;
/// Octets of a name that an untrusted host chose.
const NAME_LEN_MAX: usize = 255;

/// How a message was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The domain of the author (`From`), in lower case.
    pub author: String,
    /// The policy of that domain.
    pub policy: PublishedPolicy,
    /// The row of the message.
    pub row: Row,
}

/// A policy as it was published.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPolicy {
    /// `r` or `s`: how alike a signature's domain must be.
    pub adkim: String,
    /// The same of the sender's.
    pub aspf: String,
    /// For the domain.
    pub p: String,
    /// For domains below it.
    pub sp: String,
}

/// Messages with equal fields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Row {
    /// The host that brought them.
    pub address: IpAddr,
    /// The disposition: `none`, `quarantine` or `reject`.
    pub disposition: String,
    /// Whether DKIM passed for the author's domain.
    pub dkim_passes: bool,
    /// Whether SPF did.
    pub spf_passes: bool,
    /// The sender's domain; empty for the null sender.
    pub sender: String,
    /// The domain that SPF looked up, which is that of the sender or of the host, and its result.
    pub spf: (String, SpfScope, String),
    /// Domain, selector and result of each signature.
    pub dkim: Vec<(String, String, String)>,
}

/// The identity that SPF checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpfScope {
    /// The host's name.
    Helo,
    /// The sender.
    MFrom,
}

/// The counts of one domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DmarcTally {
    policy: PublishedPolicy,
    #[serde(serialize_with = "as_pairs", deserialize_with = "from_pairs")]
    rows: BTreeMap<Row, u64>,
    /// Octets of the rows, by [`Row::len`].
    #[serde(skip)]
    len: usize,
}

/// JSON has no maps whose keys are values of many fields.
fn as_pairs<S: Serializer>(rows: &BTreeMap<Row, u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(rows.iter())
}

fn from_pairs<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Row, u64>, D::Error> {
    Ok(Vec::<(Row, u64)>::deserialize(from)?.into_iter().collect())
}

impl DmarcTally {
    /// Counts a message.
    pub fn note(&mut self, policy: PublishedPolicy, mut row: Row) {
        self.policy = policy;
        row.dkim.truncate(SIGNATURES_MAX);
        let names = row.dkim.iter_mut().flat_map(|(domain, selector, _)| [domain, selector]);
        names.chain([&mut row.sender, &mut row.spf.0]).for_each(cut);
        self.count(row, 1);
    }

    fn count(&mut self, row: Row, count: u64) {
        if let Some(counted) = self.rows.get_mut(&row) {
            *counted += count;
        } else if self.rows.len() < ROWS_MAX && self.len + row.len() <= TALLY_LEN_MAX {
            self.len += row.len();
            self.rows.insert(row, count);
        }
    }

    /// The report (RFC 7489, appendix C).
    pub fn report(&self, about: &DmarcReport) -> String {
        let DmarcReport { organization, contact, id, domain, author, start, end } = about;
        let PublishedPolicy { adkim, aspf, p, sp } = &self.policy;
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feedback>\n  <version>1.0</version>\n  <report_metadata>\n    \
             <org_name>{}</org_name>\n    <email>{}</email>\n    <report_id>{}</report_id>\n    \
             <date_range><begin>{start}</begin><end>{}</end></date_range>\n  </report_metadata>\n  \
             <policy_published>\n    <domain>{}</domain>\n    <adkim>{adkim}</adkim>\n    <aspf>{aspf}</aspf>\n    \
             <p>{p}</p>\n    <sp>{sp}</sp>\n    <pct>100</pct>\n  </policy_published>\n",
            escaped(organization),
            escaped(contact),
            escaped(id),
            end - 1,
            escaped(domain),
        );
        for (row, count) in &self.rows {
            row.print(author, *count, &mut xml);
        }
        xml.push_str("</feedback>\n");
        xml
    }
}

/// The sender of a report, and its subject.
pub(crate) struct DmarcReport {
    pub organization: String,
    pub contact: String,
    pub id: String,
    /// Where the policy was found.
    pub domain: String,
    /// The domain of the authors that it is about.
    pub author: String,
    pub start: i64,
    pub end: i64,
}

impl Row {
    /// Octets that it takes, roughly. Names that untrusted hosts chose count as they are printed.
    fn len(&self) -> usize {
        let names = self.dkim.iter().map(|(domain, selector, result)| {
            let names = escaped_len(domain) + escaped_len(selector);
            size_of::<(String, String, String)>() + names + result.len()
        });
        let (domain, _, result) = &self.spf;
        let own = self.disposition.len() + escaped_len(&self.sender) + escaped_len(domain) + result.len();
        size_of::<Self>() + own + names.sum::<usize>()
    }

    fn print(&self, author: &str, count: u64, xml: &mut String) {
        let word = |passes| if passes { "pass" } else { "fail" };
        let _ = write!(
            xml,
            "  <record>\n    <row>\n      <source_ip>{}</source_ip>\n      <count>{count}</count>\n      \
             <policy_evaluated><disposition>{}</disposition><dkim>{}</dkim><spf>{}</spf></policy_evaluated>\n    \
             </row>\n    <identifiers><envelope_from>{}</envelope_from><header_from>{}</header_from></identifiers>\n    \
             <auth_results>\n",
            self.address,
            self.disposition,
            word(self.dkim_passes),
            word(self.spf_passes),
            escaped(&self.sender),
            escaped(author),
        );
        for (domain, selector, result) in &self.dkim {
            let _ = writeln!(
                xml,
                "      <dkim><domain>{}</domain><selector>{}</selector><result>{result}</result></dkim>",
                escaped(domain),
                escaped(selector)
            );
        }
        let (domain, scope, result) = &self.spf;
        let scope = match scope {
            SpfScope::Helo => "helo",
            SpfScope::MFrom => "mfrom",
        };
        let _ = write!(
            xml,
            "      <spf><domain>{}</domain><scope>{scope}</scope><result>{result}</result></spf>\n    \
             </auth_results>\n  </record>\n",
            escaped(domain)
        );
    }
}

impl Tally for DmarcTally {
    fn add(&mut self, other: Self) {
        self.policy = other.policy;
        // Counts that were read from a record are not counted yet.
        self.len = self.rows.keys().map(Row::len).sum();
        other.rows.into_iter().for_each(|(row, count)| self.count(row, count));
    }

    fn len(&self) -> usize {
        self.len + size_of::<Self>()
    }
}

fn cut(name: &mut String) {
    if name.len() > NAME_LEN_MAX {
        name.truncate(name.floor_char_boundary(NAME_LEN_MAX));
    }
}

/// Text of XML (XML 1.0 §2.4), without characters that it cannot have (§2.2).
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(address: [u8; 4]) -> Row {
        Row {
            address: address.into(),
            disposition: "quarantine".into(),
            dkim_passes: false,
            spf_passes: false,
            sender: "evil.test".into(),
            spf: ("evil.test".into(), SpfScope::MFrom, "fail".into()),
            dkim: vec![("a<b>.test".into(), "s&1".into(), "fail".into())],
        }
    }

    fn policy() -> PublishedPolicy {
        PublishedPolicy { adkim: "r".into(), aspf: "s".into(), p: "quarantine".into(), sp: "none".into() }
    }

    fn about() -> DmarcReport {
        DmarcReport {
            organization: "mx.example.org".into(),
            contact: "postmaster@mx.example.org".into(),
            id: "1".into(),
            domain: "x.test".into(),
            author: "sub.x.test".into(),
            start: 86_400,
            end: 172_800,
        }
    }

    /// A character of a name may take six octets in the report.
    #[test]
    fn names_count_as_they_are_printed() {
        let mut tally = DmarcTally::default();
        for n in 0..ROWS_MAX as u32 {
            let dkim = vec![("&".repeat(255), "\"".repeat(255), "fail".into()); SIGNATURES_MAX];
            tally.note(policy(), Row { sender: "<".repeat(255), dkim, ..row(n.to_be_bytes()) });
        }
        let xml = tally.report(&about());
        let escaped: usize =
            ["&amp;", "&quot;", "&lt;"].iter().map(|text| text.len() * xml.matches(text).count()).sum();
        assert!((TALLY_LEN_MAX / 2..=TALLY_LEN_MAX).contains(&escaped), "{escaped}");
        // In the record it is JSON.
        let controls = Row { sender: "\u{1}".repeat(255), dkim: Vec::new(), ..row([192, 0, 2, 1]) };
        assert!(serde_json::to_string(&controls.sender).unwrap().len() <= controls.len());
    }

    #[test]
    fn messages_that_are_alike_are_one_row() {
        let (mut tally, mut other) = (DmarcTally::default(), DmarcTally::default());
        tally.note(policy(), row([192, 0, 2, 1]));
        other.note(policy(), row([192, 0, 2, 1]));
        other.note(policy(), row([192, 0, 2, 2]));
        let json = serde_json::to_vec(&other).unwrap();
        tally.add(serde_json::from_slice(&json).unwrap());
        let xml = tally.report(&about());
        for part in [
            "<source_ip>192.0.2.1</source_ip>\n      <count>2</count>",
            "<source_ip>192.0.2.2</source_ip>\n      <count>1</count>",
            "<date_range><begin>86400</begin><end>172799</end></date_range>",
            "<policy_evaluated><disposition>quarantine</disposition><dkim>fail</dkim><spf>fail</spf>",
            "<header_from>sub.x.test</header_from>",
            "<domain>a&lt;b&gt;.test</domain><selector>s&amp;1</selector>",
            "<aspf>s</aspf>",
        ] {
            assert!(xml.contains(part), "{part} is not in {xml}");
        }
    }

    #[test]
    fn the_data_kept_because_of_forged_mail_has_a_bound() {
        let mut tally = DmarcTally::default();
        for n in 0..ROWS_MAX as u32 + 50 {
            let long = Row { sender: "é".repeat(300), ..row(n.to_be_bytes()) };
            tally.note(policy(), long);
        }
        assert!(tally.rows.len() < ROWS_MAX);
        assert!(tally.rows.keys().map(Row::len).sum::<usize>() <= TALLY_LEN_MAX);
        // A record that was read is not over the bound, either.
        let mut read: DmarcTally = serde_json::from_slice(&serde_json::to_vec(&tally).unwrap()).unwrap();
        let count = read.rows.len();
        for n in 0..ROWS_MAX as u32 {
            let mut more = DmarcTally::default();
            more.note(policy(), Row { sender: "b".repeat(255), ..row(n.to_be_bytes()) });
            read.add(more);
        }
        assert_eq!((read.rows.len(), read.len), (count, tally.len));
        let mut short = DmarcTally::default();
        for n in 0..ROWS_MAX as u32 + 50 {
            let row = Row { dkim: Vec::new(), sender: String::new(), ..row(n.to_be_bytes()) };
            short.note(policy(), row);
        }
        assert!(short.rows.len() <= ROWS_MAX && short.rows.len() > 500);
        assert!(tally.rows.keys().all(|row| row.sender.len() <= NAME_LEN_MAX));
    }
}
