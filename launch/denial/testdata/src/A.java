import java.io.FileWriter;
import java.nio.file.*;

class A {
  public static void main(String[] args) throws Exception {
    Path path = Path.of(args[1]);
    switch (args[0]) {
      case "io": new FileWriter(args[1]).close(); break;
      case "nio": Files.writeString(path, ""); break;
      case "mkdir": Files.createDirectories(path); break;
      case "delete": Files.delete(path); break;
      case "move": Files.move(path, path.resolveSibling("moved")); break;
    }
  }
}
