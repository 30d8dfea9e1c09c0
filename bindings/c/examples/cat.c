/* Writes the content of a file to standard output. */
#include <namewire.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	static char buffer[1 << 20];
	struct namewire_error error;

	if (argc != 2) {
		fprintf(stderr, "usage: %s NAME\n", argv[0]);
		return 2;
	}
	struct namewire_context *context = namewire_connect(NULL, &error);
	struct namewire_file *file = context ? namewire_open(context, argv[1], &error) : NULL;
	ssize_t count = file ? 0 : -1;
	uint64_t offset = 0;
	while (file && (count = namewire_pread(file, buffer, sizeof buffer, offset, &error)) > 0) {
		if (fwrite(buffer, 1, (size_t)count, stdout) != (size_t)count) {
			perror("standard output");
			break;
		}
		offset += (uint64_t)count;
	}
	if (count < 0)
		fprintf(stderr, "%s: %s\n", argv[0], error.text);
	namewire_close(file);
	namewire_disconnect(context);
	return count == 0 ? 0 : 1;
}
