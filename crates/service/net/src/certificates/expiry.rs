//! The expiry of a certificate, read from its DER.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use time::{Date, Month, OffsetDateTime, Time};

use super::Certificates;
use crate::channel_binding::{SEQUENCE, element};

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `version [0]` of a TBSCertificate.
const VERSION: u8 = 0xa0;

/// A certificate that ends soon, or has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Where the certificate came from.
    pub file: PathBuf,
    /// Its last day, as `2026-11-22`.
    pub last_day: String,
    /// Whole days left; 0 on the last day and afterwards.
    pub days_left: u64,
    /// Whether it has ended.
    pub ended: bool,
}

impl Certificates {
    /// The certificates in use that expire before `now` + `within`.
    pub fn expiring(&self, within: Duration, now: SystemTime) -> Vec<Expiry> {
        let active = self.active();
        let all = active.shown.all().filter_map(|shown| {
            let end = not_after(&shown.leaf)?;
            let left = SystemTime::from(end).duration_since(now).unwrap_or_default();
            let ended = left.is_zero();
            let days_left = left.as_secs() / (24 * 60 * 60);
            let found =
                Expiry { file: shown.file.clone(), last_day: end.date().to_string(), days_left, ended };
            (left < within).then_some(found)
        });
        all.collect()
    }
}

/// RFC 5280 §4.1: `TBSCertificate ::= SEQUENCE { version [0] DEFAULT v1, serialNumber, signature,
/// issuer, validity SEQUENCE { notBefore, notAfter }, … }`.
pub(crate) fn not_after(certificate: &[u8]) -> Option<OffsetDateTime> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (tbs, _) = element(certificate, SEQUENCE)?;
    let after_version = element(tbs, VERSION).map_or(tbs, |(_, rest)| rest);
    let (_serial, rest) = element(after_version, INTEGER)?;
    let (_signature, rest) = element(rest, SEQUENCE)?;
    let (_issuer, rest) = element(rest, SEQUENCE)?;
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_not_before, rest) = point_in_time(validity)?;
    let (not_after, _) = point_in_time(rest)?;
    Some(not_after)
}

/// A `Time` (RFC 5280 §4.1.2.5) and what follows it: `YYMMDDHHMMSSZ` of 1950 to 2049, or
/// `YYYYMMDDHHMMSSZ`.
fn point_in_time(der: &[u8]) -> Option<(OffsetDateTime, &[u8])> {
    let (text, century_digits, rest) = match (element(der, UTC_TIME), element(der, GENERALIZED_TIME)) {
        (Some((text, rest)), _) => (text, 0, rest),
        (None, Some((text, rest))) => (text, 2, rest),
        (None, None) => return None,
    };
    let digits = text.strip_suffix(b"Z")?;
    if digits.len() != century_digits + 12 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let pair = |at: usize| Some((digits.get(at)? - b'0') * 10 + (digits.get(at + 1)? - b'0'));
    let of_century = i32::from(pair(century_digits)?);
    let century = match century_digits {
        0 if of_century >= 50 => 19,
        0 => 20,
        _ => i32::from(pair(0)?),
    };
    let field = |index: usize| pair(century_digits + 2 * index);
    let date =
        Date::from_calendar_date(century * 100 + of_century, Month::try_from(field(1)?).ok()?, field(2)?);
    let time = Time::from_hms(field(3)?, field(4)?, field(5)?);
    Some((OffsetDateTime::new_utc(date.ok()?, time.ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TlsSettings;

    fn tagged(tag: u8, contents: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(contents.len()).unwrap()], contents].concat()
    }

    fn read(tag: u8, text: &str) -> Option<i64> {
        point_in_time(&tagged(tag, text.as_bytes())).map(|(time, _)| time.unix_timestamp())
    }

    #[test]
    fn both_forms_of_a_time_are_read() {
        // Known answers of `date -u +%s -d …`.
        assert_eq!(read(UTC_TIME, "261122225500Z"), Some(1_795_388_100));
        assert_eq!(read(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(read(UTC_TIME, "500101000000Z"), Some(-631_152_000));
        assert_eq!(read(GENERALIZED_TIME, "20500101000000Z"), Some(2_524_608_000));
        assert_eq!(read(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        for bad in ["", "Z", "261122225500", "261322225500Z", "260230225500Z", "2611222255Z", "26112222550xZ"]
        {
            assert_eq!(read(UTC_TIME, bad), None, "{bad}");
        }
    }

    #[test]
    fn the_end_of_a_certificate_is_found_and_cut_ones_are_passed_over() {
        for year in [2030, 2060] {
            let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
            let mut params = rcgen::CertificateParams::new(vec!["mail.example".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 2, 3);
            let der = params.self_signed(&key).unwrap().der().to_vec();
            let date = Date::from_calendar_date(year, Month::February, 3).unwrap();
            assert_eq!(not_after(&der).unwrap(), OffsetDateTime::new_utc(date, Time::MIDNIGHT));
            assert!((0..60).all(|length| not_after(&der[..length]).is_none()));
        }
    }

    #[test]
    fn certificates_that_end_soon_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let pair = Certificates::self_signed_pair(dir.path(), "mail.example").unwrap();
        let key = rcgen::KeyPair::from_pem(&std::fs::read_to_string(&pair.key).unwrap()).unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["mail.example".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2030, 2, 3);
        std::fs::write(&pair.chain, params.self_signed(&key).unwrap().pem()).unwrap();
        let certificates = Certificates::load_all(vec![pair.clone()], TlsSettings::default()).unwrap();
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let end = SystemTime::from(rcgen::date_time_ymd(2030, 2, 3));
        let at = |now| certificates.expiring(21 * DAY, now);
        assert!(at(end - 21 * DAY).is_empty());
        let soon = at(end - 21 * DAY + Duration::from_secs(1)).pop().unwrap();
        assert_eq!((soon.days_left, soon.ended, soon.last_day.as_str()), (20, false, "2030-02-03"));
        assert!(soon.file == pair.chain && at(end).pop().unwrap().ended);
    }
}
