/* cards.c: rules are copied with all that they are made of. */
#include "policy/cards.h"

#include <stddef.h>
#include <string.h>

enum {
	RULE_MOST = 256,      /* bytes of a rule on a card */
	CARDS_MOST = 1 << 27, /* of all cards: 128 MiB */
};

_Static_assert(sizeof(struct weir__card) == WEIR__POOL_LINE, "a card begins with one line");

size_t weir__card_room(const struct weir__rule *rule)
{
	size_t room = rule->n * sizeof(struct weir__condition);

	for (size_t i = 0; i < rule->n && room <= RULE_MOST; i++) {
		const struct weir__condition *const condition = &rule->conditions[i];

		for (size_t k = 0; k < condition->n && room <= RULE_MOST; k++)
			room += sizeof(struct weir__pattern) + condition->patterns[k].text.n;
	}
	return room <= RULE_MOST ? room : SIZE_MAX;
}

/* Conditions, then the patterns of all, then their texts. */
static struct weir__condition *copy_rule(const struct weir__rule *rule, unsigned char *room)
{
	struct weir__condition *const conditions = (struct weir__condition *)room;
	struct weir__pattern *patterns = (struct weir__pattern *)(conditions + rule->n);
	char *text;

	for (size_t i = 0; i < rule->n; i++) {
		conditions[i] = rule->conditions[i];
		conditions[i].patterns = patterns;
		for (size_t k = 0; k < conditions[i].n; k++)
			*patterns++ = rule->conditions[i].patterns[k];
	}
	text = (char *)patterns;
	for (size_t i = 0; i < rule->n; i++)
		for (size_t k = 0; k < conditions[i].n; k++) {
			struct weir__slice *const copied = &conditions[i].patterns[k].text;

			if (copied->n > 0)
				memcpy(text, copied->at, copied->n);
			copied->at = copied->at ? text : NULL;
			text += copied->n;
		}
	return conditions;
}

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

bool weir__cards_init(struct weir__cards *cards, struct weir__pool *pool, uint32_t n, size_t beside_bytes,
		      size_t rule_bytes)
{
	const size_t rule_at = sizeof(struct weir__card) + round_up(beside_bytes, _Alignof(max_align_t));
	uint64_t places = 4;

	*cards = (struct weir__cards){ .card_bytes = round_up(rule_at + rule_bytes, WEIR__POOL_LINE),
				       .beside_bytes = beside_bytes,
				       .rule_at = rule_at };
	while (4 * places < 5 * (uint64_t)n) /* tags are looked through quickly, so few places need be free */
		places *= 2;
	if (places * cards->card_bytes > CARDS_MOST)
		return false;
	cards->cards = weir__pool_take_lines(pool, places, cards->card_bytes);
	cards->tags = weir__pool_take_lines(pool, places, sizeof(cards->tags[0]));
	cards->n_places = cards->cards && cards->tags ? (uint32_t)places : 0;
	return cards->n_places > 0;
}

void weir__cards_add(struct weir__cards *cards, uint64_t hash, uint32_t number, const struct weir__rule *rule,
		     const void *beside)
{
	uint32_t place = (uint32_t)hash & (cards->n_places - 1);
	struct weir__card *card;

	while (cards->tags[place] != 0)
		place = (place + 1) & (cards->n_places - 1);
	cards->tags[place] = weir__card_tag(hash);
	card = weir__card_at(cards, place);
	card->hash = hash;
	card->number = number;
	card->rule.n = rule->n;
	card->rule.conditions = copy_rule(rule, (unsigned char *)card + cards->rule_at);
	memcpy(card->beside, beside, cards->beside_bytes);
}
