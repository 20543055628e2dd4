//! A table as PostgreSQL keeps it: an updated row leaves its place, and its new version goes
//! elsewhere.

/// Numbers that look random and are always the same.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Where the new versions of rows go, and which rows are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Rows that lie together, to the end.
    Clustered,
    /// Rows all over, to the end, in any order.
    Appended,
    /// Rows all over, into places that others left.
    Reused,
    /// Rows all over, where they are.
    InPlace,
    /// No row is changed; new ones come in between.
    Inserted,
}

impl Change {
    /// Those that change rows.
    #[allow(dead_code, reason = "not every test needs them")]
    pub const ALL: [Self; 4] = [Self::Clustered, Self::Appended, Self::Reused, Self::InPlace];
}

/// The rows of a table, in the order of a dump.
pub struct Heap {
    rows: Vec<Option<(u64, i64)>>,
    render: fn(u64, i64) -> String,
    numbers: Numbers,
}

impl Heap {
    /// Rows like those of pgbench: a number, a balance, and a filler of blanks.
    pub fn accounts(count: u64) -> Self {
        Self::new(count, |id, balance| {
            format!("{id}\t{}\t{balance}\t{:84}\n", id / 100_000 + 1, "")
        })
    }

    /// Rows of text that does not compress, and a counter.
    pub fn random(count: u64) -> Self {
        Self::new(count, |id, balance| {
            let mut numbers = Numbers(id);
            let text: String = (0..5).map(|_| format!("{:016x}", numbers.next())).collect();
            format!("{id}\t{text}\t{balance}\n")
        })
    }

    fn new(count: u64, render: fn(u64, i64) -> String) -> Self {
        Self { rows: (1..=count).map(|id| Some((id, 0))).collect(), render, numbers: Numbers(1) }
    }

    /// Changes this part of the rows and returns how many bytes their new lines have.
    pub fn change(&mut self, share: f64, change: Change) -> u64 {
        let count = (self.rows.len() as f64 * share) as usize;
        let first = self.rows.len() / 3;
        let mut places: Vec<usize> = match change {
            Change::Clustered => (first..first + count).collect(),
            _ => (0..count).map(|_| self.numbers.next() as usize % self.rows.len()).collect(),
        };
        let mut free = Vec::new();
        let mut bytes = 0;
        if change == Change::Reused {
            // Places that were left earlier.
            let away = places.split_off(count / 2);
            free = away;
            for place in &free {
                self.rows[*place] = None;
            }
            places.extend((0..count / 2).map(|_| self.numbers.next() as usize % self.rows.len()));
        }
        for place in places {
            if change == Change::Inserted {
                let new = (self.numbers.next() >> 20, 0);
                bytes += (self.render)(new.0, new.1).len() as u64;
                self.rows.insert(place, Some(new));
                continue;
            }
            let Some((id, balance)) = self.rows[place].take() else { continue };
            let new = (id, balance + self.numbers.next() as i64 % 5000);
            bytes += (self.render)(new.0, new.1).len() as u64;
            match change {
                Change::InPlace => self.rows[place] = Some(new),
                Change::Reused => match free.pop() {
                    Some(free) => self.rows[free] = Some(new),
                    None => self.rows.push(Some(new)),
                },
                _ => self.rows.push(Some(new)),
            }
        }
        bytes
    }

    /// The table as `pg_dump` writes it, with something around it.
    pub fn dump(&self) -> Vec<u8> {
        let mut out = b"--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\n\n\
            CREATE TABLE public.accounts (\n    aid integer NOT NULL\n);\n\n\
            COPY public.accounts (aid) FROM stdin;\n"
            .to_vec();
        for (id, balance) in self.rows.iter().flatten() {
            out.extend_from_slice((self.render)(*id, *balance).as_bytes());
        }
        out.extend_from_slice(b"\\.\n\n\n--\n-- PostgreSQL database dump complete\n--\n\n");
        out
    }
}
