//! Warnings of certificates that expire soon: at the start, daily and after SIGHUP.

use std::time::{Duration, SystemTime};

use posthaste_net::Certificates;

/// A certificate that ends within this time is named in the log. Certificates with 90 days are
/// replaced when 30 are left: by then something has failed for nine days.
const ENDS_SOON: Duration = Duration::from_secs(21 * 24 * 60 * 60);

/// Looks at the certificates at once and then after each pause, for as long as the server runs.
pub async fn watch(certificates: Certificates, pause: Duration) {
    loop {
        warn(&certificates);
        tokio::time::sleep(pause).await;
    }
}

/// Names the certificates that end soon.
pub fn warn(certificates: &Certificates) {
    for expiry in certificates.expiring(ENDS_SOON, SystemTime::now()) {
        let (file, last_day, days_left) = (expiry.file.display(), &expiry.last_day, expiry.days_left);
        if expiry.ended {
            tracing::error!(%file, last_day, "this certificate has expired and clients refuse it: replace it and send SIGHUP");
        } else {
            tracing::warn!(%file, last_day, days_left, "this certificate expires soon: replace it and send SIGHUP");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write as _};
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use posthaste_net::TlsSettings;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::subscriber::set_default;
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// The warnings and errors of a thread, as text.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<Vec<String>>>);

    impl Warnings {
        fn said(&self) -> Vec<String> {
            self.0.lock().unwrap().clone()
        }
    }

    impl Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN
        }

        fn event(&self, event: &Event<'_>) {
            let mut text = Text(event.metadata().level().to_string());
            event.record(&mut text);
            self.0.lock().unwrap().push(text.0);
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// A level and the fields of an event.
    struct Text(String);

    impl Visit for Text {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }

    /// A certificate in this directory that ends at this time.
    fn ending(directory: &Path, end: SystemTime) -> Certificates {
        let pair = Certificates::self_signed_pair(directory, "mail.example").unwrap();
        let key = rcgen::KeyPair::from_pem(&std::fs::read_to_string(&pair.key).unwrap()).unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["mail.example".to_owned()]).unwrap();
        params.not_after = end.into();
        std::fs::write(&pair.chain, params.self_signed(&key).unwrap().pem()).unwrap();
        Certificates::load_all(vec![pair], TlsSettings::default()).unwrap()
    }

    #[test]
    fn an_end_that_comes_is_a_warning_and_one_that_came_is_an_error() {
        let (directory, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let said_of = |end: SystemTime| {
            let (warnings, certificates) = (Warnings::default(), ending(directory.path(), end));
            let _logging = set_default(warnings.clone());
            warn(&certificates);
            warnings.said()
        };
        assert_eq!(said_of(now + DAY * 22), [""; 0]);
        let soon = said_of(now + DAY * 5);
        assert!(soon.len() == 1 && soon[0].starts_with("WARN "), "{soon:?}");
        assert!(soon[0].contains("expires soon") && soon[0].contains(" days_left=4"), "{soon:?}");
        let ended = said_of(now - DAY);
        assert!(ended.len() == 1 && ended[0].starts_with("ERROR "), "{ended:?}");
        assert!(ended[0].contains("has expired"), "{ended:?}");
    }

    /// Also those that took the place of others in the meantime.
    #[tokio::test]
    async fn certificates_are_looked_at_again_after_each_pause() {
        let (directory, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let certificates = ending(directory.path(), now + DAY * 100);
        let others = ending(directory.path(), now + DAY * 5);
        let warnings = Warnings::default();
        let _logging = set_default(warnings.clone());
        let replaced = async {
            tokio::task::yield_now().await;
            assert_eq!(warnings.said(), [""; 0]);
            certificates.replace_by(&others);
            while warnings.said().len() < 3 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = watch(certificates.clone(), Duration::ZERO) => {}
            () = replaced => {}
        }
        let said = warnings.said();
        assert!(said.len() >= 3 && said.iter().all(|line| line.contains("expires soon")), "{said:?}");
    }
}
