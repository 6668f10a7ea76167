//! The queue as OpenMetrics text.

use std::fmt;

use posthaste_queue::{Attempts, Done, Figures};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// The items in the queue, and the outcomes of those that left it.
pub fn encode(encoder: &mut DescriptorEncoder<'_>, figures: &Figures) -> Result<(), fmt::Error> {
    let help = "Messages in the queue by what they wait for";
    let mut family = encoder.encode_descriptor("posthaste_queue_messages", help, None, MetricType::Gauge)?;
    for (state, count) in figures.states {
        let labels = [("state", state.name())];
        ConstGauge::new(count as f64).encode(family.encode_family(&labels)?)?;
    }
    let help = "Messages in the queue by age; each class begins where the one before ends";
    let name = "posthaste_queue_messages_by_age";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (age, count) in &figures.ages {
        ConstGauge::new(*count as f64).encode(family.encode_family(&[("age", *age)])?)?;
    }
    let help = "Recipients of messages in the queue by what became of them; `deferred` counts each attempt";
    let name = "posthaste_queue_recipients";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (outcome, count) in Done::ALL.into_iter().zip(figures.done.recipients) {
        let labels = [("outcome", outcome.name())];
        ConstCounter::new(count as f64).encode(family.encode_family(&labels)?)?;
    }
    let help = "Attempts to reach a destination, by its kind and by their outcome";
    let name = "posthaste_queue_connections";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (kind, Attempts { made, failed, refused }) in &figures.done.connections {
        for (outcome, count) in [("made", made), ("failed", failed), ("refused", refused)] {
            let labels = [("to", *kind), ("outcome", outcome)];
            ConstCounter::new(*count as f64).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Reports to other domains that were dropped because too many wait";
    let name = "posthaste_queue_dropped_reports";
    let dropped = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(figures.dropped_reports as f64).encode(dropped)?;
    let help = "How long a message was in the queue before a recipient had it";
    let unit = Some(Unit::Seconds);
    let name = "posthaste_queue_wait";
    let mut waits = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Histogram)?;
    let count = figures.done.waits.iter().map(|(_, count)| count).sum();
    waits.encode_histogram::<NoLabelSet>(figures.done.waited, count, &figures.done.waits, None)
}
