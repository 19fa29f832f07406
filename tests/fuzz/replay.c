/* replay.c: runs a fuzz target once over each file of a folder, without a fuzzer, so that old findings stay fixed. */
#include <dirent.h>

#include "require.h"

static int play(const char *folder, const char *name)
{
	static uint8_t bytes[1 << 17];
	char path[1024];
	size_t size;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rbe");
	if (file == NULL) {
		perror(path);
		return -1;
	}
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	printf("# %s\n", name);
	fflush(stdout);
	return LLVMFuzzerTestOneInput(bytes, size);
}

int main(int argc, char **argv)
{
	const struct dirent *entry;
	DIR *folder;
	int played = 0;

	if (argc != 2 || (folder = opendir(argv[1])) == NULL) {
		fprintf(stderr, "usage: replay FOLDER\n");
		return 2;
	}
	puts("1..1");
	while ((entry = readdir(folder)) != NULL)
		if (entry->d_name[0] != '.') {
			if (play(argv[1], entry->d_name) != 0)
				return 1;
			played++;
		}
	closedir(folder);
	printf("%s 1 - %d inputs\n", played > 0 ? "ok" : "not ok", played);
	return played > 0 ? 0 : 1;
}
