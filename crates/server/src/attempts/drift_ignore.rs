//! What a layer does not count as drift: entries of `drift.ignore`.
//!
//! An entry names a module, a resource, an instance or an attribute, in the syntax of Terraform's addresses. It stands for
//! that and all that is in it; `[*]` stands for each index.

/// An entry of `drift.ignore`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Ignored {
    entry: String,
}

impl Ignored {
    pub(super) fn new(entry: &str) -> Self {
        Self { entry: entry.to_owned() }
    }

    /// The entry as it is written.
    pub(super) fn entry(&self) -> &str {
        &self.entry
    }

    /// Whether `path` is what the entry names, or in it.
    pub(super) fn contains(&self, path: &str) -> bool {
        let (entry, path) = (segments(&self.entry), segments(path));
        entry.len() <= path.len() && is_prefix(&entry, &path)
    }

    /// Whether the entry is about the resource at this address, of which `has_attribute` knows the attributes.
    pub(super) fn is_about(&self, address: &str, has_attribute: impl Fn(&str) -> bool) -> bool {
        let (entry, address) = (segments(&self.entry), segments(address));
        let common = entry.len().min(address.len());
        is_prefix(&entry[..common], &address)
            && entry.get(address.len()).is_none_or(|attribute| has_attribute(attribute))
    }
}

fn is_prefix(entry: &[&str], path: &[&str]) -> bool {
    let is_same =
        |(entry, part): (&&str, &&str)| entry == part || (*entry == "[*]" && part.starts_with('['));
    entry.iter().zip(path).all(is_same)
}

/// The names and indices of an address: `a.b["x.y"].c` has `a`, `b`, `["x.y"]` and `c`.
fn segments(address: &str) -> Vec<&str> {
    let (mut all, mut begin) = (Vec::new(), 0);
    let (mut in_index, mut is_quoted, mut is_escaped) = (false, false, false);
    for (at, character) in address.char_indices() {
        let was_escaped = std::mem::take(&mut is_escaped);
        match character {
            '\\' if is_quoted => is_escaped = !was_escaped,
            '"' if in_index && !was_escaped => is_quoted = !is_quoted,
            ']' if in_index && !is_quoted => {
                all.push(&address[begin..=at]);
                (begin, in_index) = (at + 1, false);
            }
            '.' if !in_index => {
                all.push(&address[begin..at]);
                begin = at + 1;
            }
            '[' if !in_index => {
                all.push(&address[begin..at]);
                (begin, in_index) = (at, true);
            }
            _ => {}
        }
    }
    all.push(&address[begin..]);
    all.retain(|segment| !segment.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_stands_for_what_it_names_and_what_is_in_it() {
        for (entry, path, is_in) in [
            ("x.y", "x.y", true),
            ("x.y", "x.y.attr", true),
            ("x.y", "x.y[0].attr", true),
            ("x.y", "x.yz.attr", false),
            ("x.y.attr", "x.y", false),
            ("x.y.attr", "x.y.attr[0].in", true),
            ("x.y.attr", "x.y[0].attr", false),
            ("x.y[0]", "x.y[0].attr", true),
            ("x.y[0]", "x.y[1].attr", false),
            // One attribute of all instances.
            ("x.y[*].attr", "x.y[0].attr", true),
            ("x.y[*].attr", "x.y[12].attr.in", true),
            ("x.y[*].attr", "x.y[\"a.b[]\"].attr", true),
            ("x.y[*].attr", "x.y[\"a\\\"].attr\"].other", false),
            ("x.y[*].attr", "x.y[0].other", false),
            ("x.y[*].attr", "x.y.attr", false),
            ("x.y[*]", "x.y[0].attr", true),
            ("module.m[*].x.y.attr", "module.m[\"eu\"].x.y.attr", true),
            ("module.m[*].x.y[*].attr", "module.m[0].x.y[1].attr", true),
            ("module.m", "module.m[\"eu\"].x.y.attr", true),
            ("module.m", "module.n.x.y.attr", false),
            ("x.y.list[*].attr", "x.y.list[3].attr", true),
        ] {
            assert_eq!(Ignored::new(entry).contains(path), is_in, "{entry} {path}");
        }
    }

    #[test]
    fn entry_is_about_a_resource_that_exists_with_its_attribute() {
        for (entry, address, is_about) in [
            ("x.y", "x.y", true),
            ("x.y", "x.y[0]", true),
            ("x.y[*].attr", "x.y[0]", true),
            ("x.y[*].attr", "x.y", false),
            ("x.y.attr", "x.y", true),
            ("x.y.attr", "x.y[0]", false),
            ("x.y.typo", "x.y", false),
            ("x.z", "x.y", false),
            ("module.m", "module.m.x.y", true),
            ("module.m.x.y.attr.in", "module.m.x.y", true),
        ] {
            let known = |attribute: &str| attribute == "attr";
            assert_eq!(Ignored::new(entry).is_about(address, known), is_about, "{entry} {address}");
        }
    }
}
