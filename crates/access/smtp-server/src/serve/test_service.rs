//! A service for the tests of its sessions.

#![allow(clippy::unwrap_used)]

use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_mail_model::Secret;
use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};

use super::*;
use crate::SmtpOptions;

/// A service with mailboxes in memory and one account, `ana@example.org`.
pub(super) async fn service_with_ana(role: Role) -> Arc<SmtpService> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::new(Arc::clone(&engine), StoreOptions::default());
    let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap());
    let password = Secret::new("correct horse".to_owned());
    directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
    let delivery = Delivery::new(store, Arc::clone(&directory), DeliveryOptions::default());
    let options = SmtpOptions::new("mail.example.org");
    Arc::new(SmtpService::new(role, options, directory, Arc::new(delivery)))
}
