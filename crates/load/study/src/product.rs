//! All combinations of the values of a sweep.

use std::collections::BTreeMap;

/// The combinations of all values; the value that changes fastest is the last key.
pub(crate) fn product(sweep: &BTreeMap<String, Vec<f64>>) -> Vec<BTreeMap<String, f64>> {
    let mut points = vec![BTreeMap::new()];
    for (key, values) in sweep {
        points = points
            .iter()
            .flat_map(|point: &BTreeMap<String, f64>| {
                values.iter().map(move |value| {
                    let mut point = point.clone();
                    point.insert(key.clone(), *value);
                    point
                })
            })
            .collect();
    }
    points
}
