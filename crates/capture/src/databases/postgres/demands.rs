//! What a dump asks of the server that it is loaded into: roles, extensions, tablespaces, rights, and room for locks.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::Write;

use super::super::sql::lexer::{Event, Lexer, Part};
use super::super::sql::takes;

/// Collected while a dump is written to it.
#[derive(Debug, Default)]
pub struct Demands {
    lexer: Lexer,
    /// Roles that it names.
    pub roles: BTreeSet<String>,
    /// Those among them that own something.
    pub owners: BTreeSet<String>,
    /// To whom it gives the schema `public`, which is there before. A `pg_dump` of 15 or later always says so of older
    /// servers.
    pub public_owner: Option<String>,
    /// Extensions that it installs.
    pub extensions: BTreeSet<String>,
    /// Tablespaces that it uses.
    pub tablespaces: BTreeSet<String>,
    /// Whether it defines event triggers, which only superusers may.
    pub event_triggers: bool,
    /// Who may create objects in its schemas. In one that it gives to nobody, only the loading user may.
    pub creators: BTreeMap<String, BTreeSet<Creator>>,
    /// The roles that own its schemas, `public` left out.
    pub schema_owners: BTreeMap<String, String>,
    /// The roles that own something, by schema.
    pub owners_in: BTreeMap<String, BTreeSet<String>>,
    /// Roles whose default privileges it sets.
    pub default_privileges: BTreeSet<String>,
    /// How many locks it takes.
    pub locks: u64,
}

/// Somebody who may create objects in a schema.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Creator {
    /// All roles (`PUBLIC`).
    Everybody,
    /// One role.
    Role(String),
}

impl Write for Demands {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut lexer = std::mem::take(&mut self.lexer);
        let looked = lexer.feed(bytes, |lexer, event| -> Result<(), Infallible> {
            if event == Event::End(Part::Statement) {
                self.locks += takes::locks(lexer);
                self.statement(lexer.head());
            }
            Ok(())
        });
        match looked {
            Ok(()) => self.lexer = lexer,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A word or number, in lower case.
    Word(String),
    /// A name or text in quotes.
    Quoted(String),
    /// Anything else.
    Sign(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }
}

impl Demands {
    fn statement(&mut self, head: &[u8]) {
        let text = String::from_utf8_lossy(head);
        // Most statements ask for nothing; their beginning tells.
        let first = text.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next();
        match first.unwrap_or_default().to_ascii_lowercase().as_str() {
            "create" => self.creation(&tokens(&text)),
            "alter" => self.alteration(&tokens(&text)),
            "grant" => {
                let tokens = tokens(&text);
                self.named_behind(&tokens, "to");
                if let Some((schema, creator)) = creation_in_schema(&tokens, "to") {
                    self.creators.entry(schema).or_default().insert(creator);
                }
            }
            "revoke" => {
                let tokens = tokens(&text);
                self.named_behind(&tokens, "from");
                if let Some((schema, creator)) = creation_in_schema(&tokens, "from") {
                    self.creators.entry(schema).or_default().remove(&creator);
                }
            }
            "set" => self.setting(&tokens(&text)),
            _ => {}
        }
    }

    fn creation(&mut self, tokens: &[Token]) {
        match tokens {
            [_, kind, rest @ ..] if kind.is("extension") => {
                let name = rest
                    .iter()
                    .find(|token| !["if", "not", "exists"].iter().any(|word| token.is(word)));
                self.extensions.extend(name.and_then(named));
            }
            [_, event, trigger, ..] if event.is("event") && trigger.is("trigger") => {
                self.event_triggers = true;
            }
            [_, kind, name, ..] if kind.is("schema") => {
                if let Some(name) = named(name) {
                    self.creators.entry(name).or_default();
                }
            }
            [_, kind, ..] if kind.is("policy") => self.named_behind(tokens, "to"),
            [_, user, mapping, of, name, ..]
                if user.is("user") && mapping.is("mapping") && of.is("for") =>
            {
                self.roles.extend(role(name));
            }
            _ => {}
        }
    }

    fn alteration(&mut self, tokens: &[Token]) {
        if let [_, default, privileges, of, kind, name, rest @ ..] = tokens
            && default.is("default")
            && privileges.is("privileges")
            && of.is("for")
            && kind.is("role")
        {
            self.roles.extend(role(name));
            self.default_privileges.extend(role(name));
            let behind = if rest.iter().any(|token| token.is("revoke")) { "from" } else { "to" };
            return self.named_behind(rest, behind);
        }
        if let [.., owner, to, name, Token::Sign(';')] = tokens
            && owner.is("owner")
            && to.is("to")
        {
            self.roles.extend(role(name));
            match tokens {
                [_, schema, public, ..] if schema.is("schema") && public.is("public") => {
                    self.public_owner = role(name);
                }
                _ => self.owners.extend(role(name)),
            }
            let Some(owner) = role(name) else { return };
            match tokens {
                [_, kind, schema, ..] if kind.is("schema") => {
                    let Some(schema) = named(schema) else { return };
                    let creators = self.creators.entry(schema.clone()).or_default();
                    creators.insert(Creator::Role(owner.clone()));
                    self.schema_owners.insert(schema, owner);
                }
                // The first name that has its schema with it.
                _ => {
                    let dot = tokens.iter().position(|token| *token == Token::Sign('.'));
                    let schema = dot.and_then(|dot| named(tokens.get(dot.checked_sub(1)?)?));
                    if let Some(schema) = schema {
                        self.owners_in.entry(schema).or_default().insert(owner);
                    }
                }
            }
        }
    }

    fn setting(&mut self, tokens: &[Token]) {
        match tokens {
            [_, session, authorization, name, ..]
                if session.is("session") && authorization.is("authorization") =>
            {
                self.roles.extend(role(name).filter(|_| !name.is("default")));
            }
            [.., setting, Token::Sign('='), name, _] if setting.is("default_tablespace") => {
                self.tablespaces.extend(named(name).filter(|name| !name.is_empty()));
            }
            _ => {}
        }
    }

    /// The list of roles behind the last `word`.
    fn named_behind(&mut self, tokens: &[Token], word: &str) {
        let Some(at) = tokens.iter().position(|token| token.is(word)) else { return };
        let mut rest = tokens.iter().skip(at + 1);
        while let Some(name) = rest.next() {
            self.roles.extend(role(name));
            if rest.next() != Some(&Token::Sign(',')) {
                break;
            }
        }
    }
}

/// Whom a statement lets create objects in which schema (`GRANT CREATE ON SCHEMA s TO r`), or does not any more.
fn creation_in_schema(tokens: &[Token], preposition: &str) -> Option<(String, Creator)> {
    let on = tokens.iter().position(|token| token.is("on"))?;
    let (rights, rest) = tokens.split_at(on);
    match rest {
        [_, kind, schema, to, grantee, ..]
            if kind.is("schema")
                && to.is(preposition)
                && rights.iter().any(|right| right.is("create") || right.is("all")) =>
        {
            let everybody = grantee.is("public");
            let creator =
                if everybody { Creator::Everybody } else { Creator::Role(named(grantee)?) };
            Some((named(schema)?, creator))
        }
        _ => None,
    }
}

fn named(token: &Token) -> Option<String> {
    match token {
        Token::Word(name) | Token::Quoted(name) => Some(name.clone()),
        Token::Sign(_) => None,
    }
}

/// A role's name; those that mean whoever asks are none.
fn role(token: &Token) -> Option<String> {
    let stands_for = ["public", "current_user", "current_role", "session_user"];
    named(token).filter(|_| !stands_for.iter().any(|word| token.is(word)))
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(first) = rest.next() {
        if first.is_whitespace() {
            continue;
        }
        if first == '"' || first == '\'' {
            let mut name = String::new();
            while let Some(next) = rest.next() {
                if next == first && rest.next_if_eq(&first).is_none() {
                    break;
                }
                name.push(next);
            }
            tokens.push(Token::Quoted(name));
        } else if first.is_alphanumeric() || first == '_' {
            let mut word = first.to_string();
            let fits = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '$');
            while let Some(next) = rest.next_if(fits) {
                word.push(next);
            }
            tokens.push(Token::Word(word.to_ascii_lowercase()));
        } else {
            tokens.push(Token::Sign(first));
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dump_asks_for() {
        let dump = r#"
            SET default_tablespace = '';
            SET default_tablespace = fast;
            CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA public;
            CREATE TABLE public."OWNER TO x" (a int);
            ALTER TABLE public."OWNER TO x" OWNER TO "The ""Owner""";
            ALTER SCHEMA public OWNER TO "First";
            ALTER TABLE ONLY public.t ADD CONSTRAINT c CHECK (a > 1);
            GRANT SELECT("to",b) ON TABLE public.t TO reader WITH GRANT OPTION;
            CREATE SCHEMA "The own";
            CREATE SCHEMA s;
            ALTER SCHEMA s OWNER TO "First";
            GRANT ALL ON SCHEMA s TO PUBLIC;
            GRANT USAGE ON SCHEMA public TO reader;
            REVOKE USAGE ON SCHEMA s FROM PUBLIC;
            GRANT CREATE,USAGE ON SCHEMA public TO "Two";
            REVOKE ALL ON FUNCTION f(text) FROM revoked;
            SET SESSION AUTHORIZATION grantor;
            RESET SESSION AUTHORIZATION;
            CREATE POLICY p ON public.t FOR SELECT TO one, "Two" USING ((a = 1));
            CREATE USER MAPPING FOR mapped SERVER s;
            ALTER DEFAULT PRIVILEGES FOR ROLE giver IN SCHEMA s GRANT SELECT ON TABLES  TO taker;
            CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$ALTER TABLE x OWNER TO nobody;$$;
            COPY public.t (a) FROM stdin;
GRANT x TO nobody;
\.
            CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION f();
        "#;
        let mut demands = Demands::default();
        for piece in dump.as_bytes().chunks(7) {
            demands.write_all(piece).unwrap();
        }
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(list(&demands.owners), "First The \"Owner\"");
        let role = |name: &str| Creator::Role(name.to_owned());
        let creators = |schema: &str| demands.creators[schema].iter().cloned().collect::<Vec<_>>();
        assert_eq!(creators("The own"), []);
        assert_eq!(creators("s"), [Creator::Everybody, role("First")]);
        assert_eq!(creators("public"), [role("First"), role("Two")]);
        assert_eq!(demands.public_owner.as_deref(), Some("First"));
        assert_eq!(
            list(&demands.roles),
            "First The \"Owner\" Two giver grantor mapped one reader revoked taker"
        );
        assert_eq!(list(&demands.extensions), "uuid-ossp");
        assert_eq!(list(&demands.tablespaces), "fast");
        assert!(demands.event_triggers);
        assert_eq!(list(&demands.default_privileges), "giver");
        assert_eq!(list(&demands.owners_in["public"]), "The \"Owner\"");
        assert_eq!(demands.schema_owners["s"], "First");
        assert_eq!(demands.locks, 3 + 1 + 7);
    }
}
