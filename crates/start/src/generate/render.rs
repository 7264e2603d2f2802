//! Renders templates.

/// Renders a template. Each line of the result has an end of line.
pub(super) fn render_template(template: &impl askama::Template) -> String {
    let mut text = template.render().expect("writing to a string does not fail");
    text.push('\n');
    text
}
