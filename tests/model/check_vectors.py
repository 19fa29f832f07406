"""check_vectors.py: plays vector files on the model and compares.

    check_vectors.py FILE...        - is standard input

Prints each row that differs as file:line, ends with the number of vectors that passed and failed, and exits 1 if one
failed. tests/vectors/README.md has the grammar."""

import sys

import weir_model

FIELDS = {'remaining', 'retry', 'reset', 'delay', 'granted', 'by'}


class Player:
    """One vector: its limits and reservations."""

    def __init__(self):
        self.limits = {}
        self.reservations = {}

    def add_limit(self, words):
        name, options = words[1], dict(word.split('=') for word in words[2:])
        count, period = map(int, options.pop('rate').split('/'))
        algorithm = options.pop('algorithm')
        for key in ('burst', 'segments', 'initial'):
            if key in options:
                options[key] = int(options[key])
        if 'count' in options:
            options['count_all'] = options.pop('count') == 'all'
        self.limits[name] = weir_model.make_limit(algorithm, count, period, **options)

    def play(self, words):
        """The answer to an `at` line; `words` are those before its arrow."""
        now, op, args = int(words[1]), words[2], words[3:]
        if op == 'cancel':
            reservation = self.reservations[args[0]]
            return reservation.limit.cancel(now, reservation)
        if len(self.limits) == 1 and args[0] not in self.limits:
            args = [*self.limits, *args]
        if op == 'all':
            names, costs = args[0].split(','), [int(cost) for cost in args[1].split(',')]
            if len(costs) == 1:
                costs *= len(names)
            answer = weir_model.take_all(now, [self.limits[name] for name in names], costs)
            return answer if answer.by is None else answer._replace(by=names[answer.by])
        limit = self.limits[args[0]]
        if op == 'set':
            changes = dict(word.split('=') for word in args[1:])
            if 'rate' in changes:
                changes['count'], changes['period'] = changes.pop('rate').split('/')
            return limit.set(now, **{key: int(value) for key, value in changes.items()})
        if op == 'reserve':
            answer, self.reservations[args[2]] = limit.reserve(now, int(args[1]))
            return answer
        if op == 'undo':
            charge = dict(word.split('=') for word in args[2:])
            return limit.undo(now, int(args[1]), int(charge['charged']), int(charge['of']))
        return getattr(limit, op)(now, int(args[1]))


def mismatches(answer, words):
    """The fields after the arrow that differ from the answer."""
    wrong = [] if answer.verdict == words[0] else [answer.verdict]
    for word in words[1:]:
        name, value = word.split('=')
        if name not in FIELDS:
            raise ValueError(f'unknown field {name}')
        if str(getattr(answer, name)) != value:
            wrong.append(f'{name}={getattr(answer, name)}')
    return wrong


def check(name, lines):
    """Returns (passed, failed)."""
    totals = [0, 0]
    player, failed = None, False
    for number, line in enumerate([*lines, ''], 1):
        line = line.rstrip('\n')
        words = line.split(' ')
        if not line:
            if player:
                totals[failed] += 1
            player, failed = None, False
        elif words[0] == 'vector':
            player = Player()
        elif words[0] == 'limit':
            player.add_limit(words)
        elif words[0] == 'at':
            arrow = words.index('->')
            wrong = mismatches(player.play(words[:arrow]), words[arrow + 1:])
            if wrong:
                failed = True
                print(f'{name}:{number}: {line}\n    the model answers {" ".join(wrong)}')
        elif not line.startswith('#'):
            raise ValueError(f'{name}:{number}: unknown statement')
    return totals


def main(names):
    passed = failed = 0
    for name in names:
        if name == '-':
            totals = check('standard input', sys.stdin)
        else:
            with open(name, encoding='utf-8') as file:
                totals = check(name, file)
        passed, failed = passed + totals[0], failed + totals[1]
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
