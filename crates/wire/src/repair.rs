//! What `clawpen doctor --repair --json` prints.

use serde::Serialize;

/// How the database is, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    pub database: String,
    /// `absent`, `sound` or `corrupt`.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Absent if nothing was to be done, or nobody agreed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuilt: Option<Rebuilt>,
    /// What was put right besides; absent if nobody could look, or there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub put_right: Option<PutRight>,
}

/// Sandboxes and what killed processes left of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PutRight {
    /// Written down again, by name: they live, and no row named them.
    pub survivors: Vec<String>,
    /// Rows that lied, by name: half made, half removed or gone.
    pub rows: Vec<String>,
    /// Leftovers that no row named.
    pub leftovers: usize,
    /// What could not be put right.
    pub problems: Vec<String>,
}

/// What a rebuild left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rebuilt {
    /// The corrupt file's new name.
    pub kept: String,
    /// How many sandboxes that live were written down.
    pub sandboxes: usize,
    pub names: Vec<String>,
    /// The end of the old audit chain, as `seq:hash`; absent if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_head: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_that_of_version_1() {
        let repair = |rebuilt, detail: Option<&str>| {
            let (detail, put_right) = (detail.map(str::to_owned), None);
            let (database, state) = ("/s/clawpen.db".to_owned(), "corrupt".to_owned());
            serde_json::to_string(&Repair { database, state, detail, rebuilt, put_right }).unwrap()
        };
        let rebuilt = Rebuilt {
            kept: "/s/old".to_owned(),
            sandboxes: 1,
            names: vec!["a".to_owned()],
            old_head: Some("3:ab".to_owned()),
        };
        assert_eq!(
            repair(Some(rebuilt), Some("why")),
            r#"{"database":"/s/clawpen.db","state":"corrupt","detail":"why","rebuilt":{"kept":"/s/old","sandboxes":1,"names":["a"],"oldHead":"3:ab"}}"#
        );
        let put_right = PutRight {
            survivors: vec!["a".to_owned()],
            rows: Vec::new(),
            leftovers: 1,
            problems: Vec::new(),
        };
        assert_eq!(
            serde_json::to_string(&put_right).unwrap(),
            r#"{"survivors":["a"],"rows":[],"leftovers":1,"problems":[]}"#
        );
        assert_eq!(repair(None, None), r#"{"database":"/s/clawpen.db","state":"corrupt"}"#);
    }
}
