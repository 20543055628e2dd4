//! What is read before the walk counts, whatever stands there by then.

use rappel_capture::files::First;
use rappel_store::content;
use rappel_types::Node;

use crate::project::{Project, path};

fn text(project: &Project, name: &str) -> Option<String> {
    let Node::File { size, content, .. } = project.tree.get(&path(name))? else { return None };
    let bytes = content::read(&project.sink, content, *size, 1 << 30).unwrap();
    Some(String::from_utf8(bytes).unwrap())
}

#[test]
fn a_file_that_is_changed_before_the_walk_is_taken_as_it_was_read_first() {
    let mut project = Project::new();
    project.write("a.txt", "saved").write("b.txt", "b").write("c.txt", "c");
    project.save();
    project.write("a.txt", "before the call");
    project.settle();
    let named = ["a.txt", "new.txt", "c.txt"].map(path);
    project.first = First::read(&project.root, &named).unwrap();
    project.write("a.txt", "after the call").write("new.txt", "new").write("b.txt", "other");
    project.settle();
    project.save();
    assert_eq!(text(&project, "a.txt").as_deref(), Some("before the call"));
    assert_eq!(text(&project, "new.txt"), None, "it was not there before the call");
    assert_eq!(text(&project, "b.txt").as_deref(), Some("other"));
    assert_eq!(text(&project, "c.txt").as_deref(), Some("c"));
    project.first = First::default();
    project.save();
    assert_eq!(text(&project, "a.txt").as_deref(), Some("after the call"));
    assert_eq!(text(&project, "new.txt").as_deref(), Some("new"));
}

#[test]
fn what_is_no_ordinary_file_is_left_to_the_scan() {
    let mut project = Project::new();
    project.write("folder/x", "x").write("large", vec![b'x'; 9 << 20]).write("a", "a");
    std::os::unix::fs::symlink("a", project.at("link")).unwrap();
    let named = ["folder", "large", "link", "folder/x/below"].map(path);
    project.first = First::read(&project.root, &named).unwrap();
    project.save_checked();
    assert!(matches!(project.tree[&path("link")], Node::Symlink { .. }));
    assert!(matches!(project.tree[&path("large")], Node::File { size, .. } if size == 9 << 20));
}

#[test]
fn a_file_that_was_read_first_is_not_believed_by_its_stamp() {
    let mut project = Project::new();
    project.write("a", "one");
    project.save();
    project.write("a", "two");
    project.first = First::read(&project.root, &[path("a")]).unwrap();
    project.settle();
    project.save();
    project.first = First::default();
    let puts = project.sink.puts();
    project.save();
    assert!(project.sink.puts() > puts, "it is read once more");
}
