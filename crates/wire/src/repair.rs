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
}

/// What a rebuild left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rebuilt {
    /// The corrupt file's new name.
    pub kept: String,
    /// How many running sandboxes were written down.
    pub sandboxes: usize,
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
            let detail = detail.map(str::to_owned);
            let (database, state) = ("/s/clawpen.db".to_owned(), "corrupt".to_owned());
            serde_json::to_string(&Repair { database, state, detail, rebuilt }).unwrap()
        };
        let rebuilt =
            Rebuilt { kept: "/s/old".to_owned(), sandboxes: 2, old_head: Some("3:ab".to_owned()) };
        assert_eq!(
            repair(Some(rebuilt), Some("why")),
            r#"{"database":"/s/clawpen.db","state":"corrupt","detail":"why","rebuilt":{"kept":"/s/old","sandboxes":2,"oldHead":"3:ab"}}"#
        );
        assert_eq!(repair(None, None), r#"{"database":"/s/clawpen.db","state":"corrupt"}"#);
    }
}
